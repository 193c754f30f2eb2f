# ptxaudit_audit(TARGET [ARGUMENTS ...]): audit the kernels in a target's file after each build.
#
#   list(APPEND CMAKE_MODULE_PATH <what `ptxaudit integration cmake` prints>)
#   include(PtxAudit)
#   ptxaudit_audit(my_kernels --fail-on warning --html ${CMAKE_BINARY_DIR}/audit.html)
#
# The build fails as `ptxaudit audit` does. PTXAUDIT_EXECUTABLE names another program than the one on PATH.

find_program(PTXAUDIT_EXECUTABLE ptxaudit)

function(ptxaudit_audit target)
  if(NOT PTXAUDIT_EXECUTABLE)
    message(FATAL_ERROR "ptxaudit: found no ptxaudit program, expected one on PATH or in PTXAUDIT_EXECUTABLE")
  endif()
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "OBJECT_LIBRARY")
    set(files $<TARGET_OBJECTS:${target}>)
    # An object library has no step after its build: the audit is a target of its own, part of `all`.
    add_custom_target(ptxaudit_${target} ALL
      COMMAND ${PTXAUDIT_EXECUTABLE} audit ${files} ${ARGN}
      COMMENT "Auditing the kernels of ${target}"
      COMMAND_EXPAND_LISTS VERBATIM)
    add_dependencies(ptxaudit_${target} ${target})
  else()
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${PTXAUDIT_EXECUTABLE} audit $<TARGET_FILE:${target}> ${ARGN}
      COMMENT "Auditing the kernels of ${target}"
      VERBATIM)
  endif()
endfunction()
