"""What changed from one sequence of synchronisations to another: added, removed, and become another kind.

The two are aligned by their kinds (the longest common blocks, :mod:`difflib`). Between what is aligned, those
of one family (waits on mbarriers, fences, ...) that stand for each other have changed. What the one side has
lost and the other has gained of the same kind was moved, and is left out: compilers lay code out anew.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ptxaudit.rules.model import Synchronisation

# Aligning takes time with the square of the length; what is longer is only counted.
MOST_ALIGNED = 4_000


@dataclass(frozen=True, slots=True)
class SynchronisationChange:
    """Synchronisations that are the same change; ``old`` and ``new`` pair up where both are there.

    Without ``old`` they were added, without ``new`` removed.
    """

    old: tuple[Synchronisation, ...]
    new: tuple[Synchronisation, ...]


_Pair = tuple[Synchronisation | None, Synchronisation | None]
_Key = tuple[str, bool]
_Grouped = dict[tuple[_Key | None, _Key | None], list[_Pair]]


def changes(
    old: Sequence[Synchronisation], new: Sequence[Synchronisation]
) -> tuple[SynchronisationChange, ...]:
    """The changes in the order of the code, each kind of change once; none for what is too long to align."""
    if max(len(old), len(new)) > MOST_ALIGNED:
        return ()
    grouped: _Grouped = {}
    for before, after in _without_moved(list(_differences(old, new))):
        kinds = (None if before is None else _key(before), None if after is None else _key(after))
        grouped.setdefault(kinds, []).append((before, after))
    for removed, _ in [key for key in grouped if key[1] is None]:
        _join_across_loops(removed, grouped)
    return tuple(
        SynchronisationChange(
            tuple(before for before, _ in pairs if before is not None),
            tuple(after for _, after in pairs if after is not None),
        )
        for pairs in grouped.values()
    )


def _key(one: Synchronisation) -> _Key:
    return one.kind, one.looped


def _join_across_loops(removed: _Key | None, grouped: _Grouped) -> None:
    """What is removed from loops and added as often outside of them (or the other way) has moved."""
    assert removed is not None
    moved = (removed[0], not removed[1])
    gone, come = grouped[removed, None], grouped.get((None, moved), [])
    if len(gone) != len(come) or (removed, moved) in grouped:
        return
    grouped[removed, moved] = [(old, new) for (old, _), (_, new) in zip(gone, come, strict=True)]
    del grouped[removed, None], grouped[None, moved]


def _differences(old: Sequence[Synchronisation], new: Sequence[Synchronisation]) -> Iterator[_Pair]:
    matcher = SequenceMatcher(None, list(map(_key, old)), list(map(_key, new)), autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "equal":
            yield from _became(old[first:last], new[start:end])


def _became(old: Sequence[Synchronisation], new: Sequence[Synchronisation]) -> Iterator[_Pair]:
    """Of two runs that stand for each other, pairs of one family in their order, then what is left."""
    waiting: dict[str, list[Synchronisation]] = defaultdict(list)
    for before in old:
        waiting[before.family].append(before)
    for after in new:
        alike = waiting[after.family]
        yield (alike.pop(0) if alike else None), after
    for several in waiting.values():
        yield from ((before, None) for before in several)


def _without_moved(pairs: list[_Pair]) -> Iterator[_Pair]:
    """The pairs less those that are removed here and added there."""
    gone = Counter(_key(before) for before, after in pairs if before is not None and after is None)
    come = Counter(_key(after) for before, after in pairs if after is not None and before is None)
    moved = gone & come
    left_gone, left_come = moved.copy(), moved.copy()
    for before, after in pairs:
        one, left = (before, left_gone) if after is None else (after, left_come)
        if one is not None and (before is None or after is None) and left[_key(one)]:
            left[_key(one)] -= 1
        else:
            yield before, after
