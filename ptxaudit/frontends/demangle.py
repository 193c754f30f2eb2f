"""Readable names of C++ functions (the Itanium ABI's mangling, which CUDA uses)."""

import itanium_demangler  # type: ignore[import-untyped]

_LONGEST = 4096


def demangle(name: str) -> str:
    """The C++ spelling of a mangled name; any other name, or one the library cannot read, as it is."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    try:
        tree = itanium_demangler.parse(name)
    # The library has no error type of its own: what it does not know surfaces as one of these.
    except (NotImplementedError, AssertionError, LookupError, TypeError, ValueError, RecursionError):
        return name
    return name if tree is None else str(tree)
