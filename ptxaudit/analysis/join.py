"""PTX joined to its SASS: which instructions of one became which of the other.

Property: for each SASS instruction the PTX instruction that it was assembled from, if that is known, and
the way it is known, best first:

- by the line table that ptxas wrote (``-lineinfo``): exact, but for synchronisation that it gives to a line
  without any (``wgmma`` at times), which is joined by the order of synchronisation among what is exact;
- by that of the same PTX assembled anew: exact where that gives the same instructions, else by aligning
  the synchronisation of the two;
- by the line of the source that both name: synchronisation of one kind, where a line has as many of one
  as of the other, or one in the PTX alone;
- by the order of synchronisation: the longest common sequence of kinds.

Direction and join: none, it is one pass over both. Known limits: code that ptxas moved or merged belongs to
one PTX instruction only; the later ways join synchronisation only. A synchronisation event of the PTX that no
SASS instruction shows is listed as dropped, which is no fault: ``tcgen05.fence`` leaves no instruction.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import StrEnum

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.ir.events import (
    Access,
    Event,
)
from ptxaudit.ir.kinds import kind_of

_UNSTEADY = ("warp barrier", "fence", "L1 invalidate", "memory barrier")  # what ptxas moves about or drops
# What ptxas neither invents nor drops.
_KEPT = frozenset(
    (
        "mbarrier init",
        "mbarrier arrive",
        "mbarrier wait",
        "wgmma",
        "CTA barrier sync",
        "CTA barrier arrive",
        "cluster barrier arrive",
        "cluster barrier wait",
        "tensor memory alloc",
        "tensor memory dealloc",
        "tensor memory mma",
        "tensor memory ld",
        "tensor memory st",
        "grid dependency wait",
        "setmaxnreg",
    )
)
_LONGEST_SEQUENCE = 4000  # comparing two sequences takes time with the square of their length


class JoinMethod(StrEnum):
    """How PTX and SASS were joined, best first."""

    LINE_TABLE = "line table"
    SAME_CODE = "line table of the same code assembled anew"
    ASSEMBLED = "line table of the PTX assembled anew"
    SOURCE_LINES = "source lines"
    EVENT_ORDER = "order of synchronisation"


@dataclass(frozen=True, slots=True)
class SassLines:
    """What the debug sections say of one function's instructions, by index: the line of the PTX and the
    line of the source (file, line) that each comes from."""

    ptx: Mapping[int, int] = field(default_factory=dict)
    source: Mapping[int, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A synchronisation event of the PTX instruction ``index`` that no SASS instruction shows."""

    index: int
    kind: str


@dataclass(frozen=True, slots=True)
class Join:
    """Instructions of one function by index. ``sass_of`` holds, for a PTX instruction, the SASS
    instructions that show its events, or all that come from it where none does."""

    method: JoinMethod
    ptx_of: Mapping[int, int]
    sass_of: Mapping[int, tuple[int, ...]]
    dropped: tuple[Dropped, ...]


def join_functions(ptx: FunctionAnalysis, sass: FunctionAnalysis, lines: SassLines) -> Join:
    """Join a function's PTX and SASS by the best way there is."""
    if lines.ptx:
        method, ptx_of = JoinMethod.LINE_TABLE, _mended(ptx, sass, _by_lines(ptx, sass, lines.ptx))
    elif lines.source and ptx.function.source_lines:
        method, ptx_of = JoinMethod.SOURCE_LINES, _by_source(ptx, sass, lines.source)
    else:
        method, ptx_of = JoinMethod.EVENT_ORDER, _by_order(ptx, sass)
    return _joined(method, ptx, sass, ptx_of)


def _joined(
    method: JoinMethod, ptx: FunctionAnalysis, sass: FunctionAnalysis, ptx_of: Mapping[int, int]
) -> Join:
    from_ptx: defaultdict[int, list[int]] = defaultdict(list)
    for index in sorted(ptx_of):
        from_ptx[ptx_of[index]].append(index)
    sass_of = {index: _telling(ptx, sass, index, found) for index, found in from_ptx.items()}
    return Join(method, ptx_of, sass_of, tuple(_dropped(ptx, sass, from_ptx)))


def join_through(
    ptx: FunctionAnalysis, sass: FunctionAnalysis, again: FunctionAnalysis, lines: SassLines
) -> Join:
    """Join by ``again``, the SASS that the PTX is assembled to, and its ``lines``."""
    known = _mended(ptx, again, _by_lines(ptx, again, lines.ptx))
    ours = [instruction.text for instruction in again.function.instructions]
    if ours == [instruction.text for instruction in sass.function.instructions]:
        return _joined(JoinMethod.SAME_CODE, ptx, sass, known)
    aligned = _aligned(_spelled(again), _spelled(sass))
    found = {index: known[one] for index, one in aligned.items() if one in known}
    return _joined(JoinMethod.ASSEMBLED, ptx, sass, found)


def _spelled(analysis: FunctionAnalysis) -> list[tuple[tuple[str, str], int]]:
    instructions = analysis.function.instructions
    return [((kind, instructions[index].opcode), index) for kind, index in _sequence(analysis, ())]


def belong_together(ptx: FunctionAnalysis, sass: FunctionAnalysis, join: Join) -> bool:
    """Whether the two are one function in two languages, so that one may settle what the other leaves open.

    A line table that ptxas wrote, and the same code, say so. Else each must show every kind of
    synchronisation that the other shows, save what ptxas moves about, merges or drops: files of one name
    need not be of one build. Known limit: kernels that use the same kinds are not told apart.
    """
    if join.method in (JoinMethod.LINE_TABLE, JoinMethod.SAME_CODE):
        return True
    ours, theirs = ({kind for kind, _ in _sequence(one)} & _KEPT for one in (ptx, sass))
    return ours == theirs


def synchronisation(events: Iterable[Event]) -> tuple[str, ...]:
    """The kinds of synchronisation among events, in a spelling that PTX and SASS share."""
    kinds = (kind_of(event) for event in events)
    return tuple(dict.fromkeys(kind.family for kind in kinds if kind is not None and kind.family))


def _by_lines(ptx: FunctionAnalysis, sass: FunctionAnalysis, lines: Mapping[int, int]) -> dict[int, int]:
    """By PTX line: the statement that begins on it or goes on there; on a line with several, the one whose
    synchronisation the instruction shows."""
    begins: defaultdict[int, list[int]] = defaultdict(list)
    for instruction in ptx.function.instructions:
        begins[instruction.location.line or 0].append(instruction.index)
    starts = sorted(begins)
    found: dict[int, int] = {}
    for index, line in lines.items():
        place = bisect_right(starts, line) - 1
        if place >= 0 and index < len(sass.events):
            found[index] = _alike(ptx, sass, index, begins[starts[place]])
    return found


def _alike(ptx: FunctionAnalysis, sass: FunctionAnalysis, index: int, candidates: Sequence[int]) -> int:
    if len(candidates) == 1:
        return candidates[0]
    shown = set(synchronisation(sass.events[index]))
    alike = [one for one in candidates if shown & set(synchronisation(ptx.events[one]))]
    return (alike or candidates)[0]


def _mended(ptx: FunctionAnalysis, sass: FunctionAnalysis, found: dict[int, int]) -> dict[int, int]:
    """Pairs by line with those added that ptxas wrote another line for.

    What a line shows of its PTX instruction's synchronisation is certain and stands for itself; what is
    shown by no line, and by a line that has nothing of the kind, is joined where both are in the same place
    among the certain ones.
    """
    shown: defaultdict[int, set[str]] = defaultdict(set)
    for index, own in found.items():
        shown[own].update(synchronisation(sass.events[index]))
    ours: list[tuple[object, int]] = [
        (index if kind in shown[index] else kind, index)
        for kind, index in _sequence(ptx, ())
        if kind in _KEPT
    ]
    theirs: list[tuple[object, int]] = [
        (
            found[index] if index in found and kind in synchronisation(ptx.events[found[index]]) else kind,
            index,
        )
        for kind, index in _sequence(sass, ())
        if kind in _KEPT
    ]
    stray = {index for key, index in theirs if isinstance(key, str)}
    if not stray or not any(isinstance(key, str) for key, _ in ours):
        return found
    mended = {index: own for index, own in _aligned(ours, theirs).items() if index in stray}
    return {**found, **mended}


def _by_source(
    ptx: FunctionAnalysis, sass: FunctionAnalysis, source: Mapping[int, tuple[str, int]]
) -> dict[int, int]:
    places = {index: (line.file, line.line) for index, line in ptx.function.source_lines.items()}
    ours = [((kind, places.get(index)), index) for kind, index in _sequence(ptx)]
    theirs = [((kind, source.get(index)), index) for kind, index in _sequence(sass)]
    found = _aligned(ours, theirs)
    only = {key: index for key, index in ours if [one for one, _ in ours].count(key) == 1}
    found.update({index: only[key] for key, index in theirs if key in only and key[1] is not None})
    return found


def _by_order(ptx: FunctionAnalysis, sass: FunctionAnalysis) -> dict[int, int]:
    return _aligned(_sequence(ptx), _sequence(sass))


def _aligned(ours: Sequence[tuple[object, int]], theirs: Sequence[tuple[object, int]]) -> dict[int, int]:
    """Instructions of the second sequence to those of the first, where their keys agree in order."""
    keys = [key for key, _ in ours], [key for key, _ in theirs]
    found: dict[int, int] = {}
    for match in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        for step in range(match.size):
            found.setdefault(theirs[match.b + step][1], ours[match.a + step][1])
    return found


def _sequence(analysis: FunctionAnalysis, without: tuple[str, ...] = _UNSTEADY) -> list[tuple[str, int]]:
    """The kinds of synchronisation in program order, some left out."""
    sequence = [
        (kind, index)
        for index, events in enumerate(analysis.events)
        for kind in synchronisation(events)
        if kind not in without
    ]
    return sequence[:_LONGEST_SEQUENCE]


def _telling(
    ptx: FunctionAnalysis, sass: FunctionAnalysis, index: int, candidates: Sequence[int]
) -> tuple[int, ...]:
    """Those of the candidates that show what the PTX instruction does; all of them where none does."""
    wanted = set(synchronisation(ptx.events[index]))
    accesses = {(one.kind, one.proxy) for one in ptx.events[index] if isinstance(one, Access)}
    telling = [
        one
        for one in candidates
        if wanted & set(synchronisation(sass.events[one]))
        or any(isinstance(e, Access) and (e.kind, e.proxy) in accesses for e in sass.events[one])
    ]
    return tuple(telling or candidates)


def _dropped(
    ptx: FunctionAnalysis, sass: FunctionAnalysis, from_ptx: Mapping[int, Sequence[int]]
) -> Iterable[Dropped]:
    for index, events in enumerate(ptx.events):
        shown = {kind for one in from_ptx.get(index, ()) for kind in synchronisation(sass.events[one])}
        for kind in synchronisation(events):
            if kind not in shown:
                yield Dropped(index, kind)
