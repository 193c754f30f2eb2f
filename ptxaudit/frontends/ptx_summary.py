"""What a PTX text holds, without parsing it: its target and the names of its functions."""

import re
from dataclasses import dataclass

from ptxaudit.arch import Architecture, parse_architecture
from ptxaudit.errors import UnsupportedArchitecture

# Comments and strings come first, so that nothing is found in them.
_TOKEN = re.compile(
    r"""//[^\n]*
    | /\*.*?\*/
    | "[^"\n]*"
    | \.target\s+(?P<target>\w+)
    | \.entry\s+(?P<kernel>[\w$%]+)
    | \.func\s*(?:\([^)]*\)\s*)?(?P<function>[\w$%]+)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class PtxSummary:
    """``kernels`` can be launched; ``functions`` are the others, declared ones too.

    ``architecture`` is ``None`` where the text names none that is known.
    """

    architecture: Architecture | None
    kernels: tuple[str, ...]
    functions: tuple[str, ...]


def summarise_ptx(content: bytes) -> PtxSummary:
    """The summary of a text; one that is no PTX has an empty one."""
    kernels: dict[str, None] = {}
    functions: dict[str, None] = {}
    target: str | None = None
    for match in _TOKEN.finditer(content.decode("utf-8", "replace")):
        if match["kernel"]:
            kernels[match["kernel"]] = None
        elif match["function"]:
            functions[match["function"]] = None
        elif match["target"] and target is None:
            target = match["target"]
    try:
        architecture = parse_architecture(target or "")
    except UnsupportedArchitecture:
        architecture = None
    return PtxSummary(architecture, tuple(kernels), tuple(functions))
