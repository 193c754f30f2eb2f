"""What a PTX text holds, without parsing it: its target and the names of its functions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.arch import Architecture, parse_architecture
from ptxaudit.errors import UnsupportedArchitecture

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORDS = (
    re.compile(rb"\.target\s+(\w+)"),
    re.compile(rb"\.entry\s+([\w$%]+)"),
    re.compile(rb"\.func\s*(?:\([^)]*\)\s*)?([\w$%]+)"),
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
    # Only where comments can span lines is it worth to take them all out: texts have up to 100 MB.
    text = _COMMENT.sub(b" ", content) if b"/*" in content else content
    targets, kernels, functions = (tuple(dict.fromkeys(_names(text, word))) for word in _WORDS)
    try:
        architecture = parse_architecture(targets[0] if targets else "")
    except UnsupportedArchitecture:
        architecture = None
    return PtxSummary(architecture, kernels, functions)


def _names(text: bytes, word: re.Pattern[bytes]) -> Iterator[str]:
    for match in word.finditer(text):
        before = text[text.rfind(b"\n", 0, match.start()) + 1 : match.start()]
        if b"//" not in before and before.count(b'"') % 2 == 0:
            yield match[1].decode("utf-8", "replace")
