"""Kernels' names for a narrow list: what they all share is left out, so that the rest tells them apart."""

import itertools
import re
from collections.abc import Collection, Mapping

_LONGEST = 64
_LEAST_SHARED = 8
_DOTS = "\N{HORIZONTAL ELLIPSIS}"
_PARAMETERS = re.compile(r"(?<=[\w>])\([^()]*\)$")
_WORD_END = re.compile(r".*(?:[_<>,: ]|(?<=[a-z0-9])(?=[A-Z]))")


def index_names(demangled: Collection[str]) -> Mapping[str, str]:
    """A short form of each of these names, without result and parameters where that leaves them apart."""
    bare = {name: _PARAMETERS.sub("", name.removeprefix("void ")) for name in demangled}
    distinct = set(bare.values())
    begin = _shared(distinct)
    end = _shared({name[begin:][::-1] for name in distinct})
    return {name: _middle_cut(_core(short, begin, end)) for name, short in bare.items()}


def _shared(names: Collection[str]) -> int:
    """With how many characters, in whole words, all of several names begin; 0 where those are few."""
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    words = _WORD_END.match("".join(one for one, _ in pairs))
    length = 0 if words is None else words.end()
    return length if length >= _LEAST_SHARED else 0


def _core(name: str, begin: int, end: int) -> str:
    inner = name[begin : len(name) - end]
    return f"{_DOTS if begin else ''}{inner}{_DOTS if end else ''}"


def _middle_cut(name: str) -> str:
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}{_DOTS}{name[-half:]}"
