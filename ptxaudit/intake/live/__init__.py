"""Captures a running program's kernels: what the CUDA driver loads, what compilers emit, how it launches.

Two ways in: :func:`ptxaudit.intake.live.program.run_captured` runs a command, and
:func:`ptxaudit.intake.live.session.capture` captures within this process. Both use one small C library
(``injection.c``) that subscribes to CUPTI's callbacks, and ask the compilers that can (Triton, the CuTe DSL,
inductor, TileLang) to keep their PTX. Nothing here needs a GPU: without one only the compilers' files are
there.
"""
