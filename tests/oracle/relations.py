"""Binary relations over events 0..n-1, kept as one bit set of successors per event."""

from collections.abc import Iterable, Iterator

Relation = list[int]


def empty(size: int) -> Relation:
    """The empty relation over `size` events."""
    return [0] * size


def from_pairs(size: int, pairs: Iterable[tuple[int, int]]) -> Relation:
    """The relation holding exactly `pairs`."""
    rows = [0] * size
    for source, target in pairs:
        rows[source] |= 1 << target
    return rows


def union(*relations: Relation) -> Relation:
    """Union of relations of equal size."""
    rows = list(relations[0])
    for relation in relations[1:]:
        for index, row in enumerate(relation):
            rows[index] |= row
    return rows


def closure(relation: Relation) -> Relation:
    """Transitive closure (Warshall, one row at a time)."""
    rows = list(relation)
    for middle in range(len(rows)):
        bit, through = 1 << middle, rows[middle]
        if not through:
            continue
        for index, row in enumerate(rows):
            if row & bit:
                rows[index] = row | through
    return rows


def compose(first: Relation, second: Relation) -> Relation:
    """All (a, c) with (a, b) in `first` and (b, c) in `second`."""
    rows = [0] * len(first)
    for index, row in enumerate(first):
        for middle in bits(row):
            rows[index] |= second[middle]
    return rows


def bits(row: int) -> Iterator[int]:
    """The members of a bit set, smallest first."""
    while row:
        low = row & -row
        yield low.bit_length() - 1
        row ^= low


def pairs(relation: Relation) -> Iterator[tuple[int, int]]:
    """All pairs of a relation."""
    for index, row in enumerate(relation):
        for target in bits(row):
            yield index, target


def has(relation: Relation, source: int, target: int) -> bool:
    """Whether the pair is in the relation."""
    return bool(relation[source] >> target & 1)


def acyclic(relation: Relation) -> bool:
    """Whether no event reaches itself."""
    return not any(row >> index & 1 for index, row in enumerate(closure(relation)))
