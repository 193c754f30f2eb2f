"""A process and what it started, as benchmarks that watch memory see them (Linux)."""

from collections.abc import Iterator
from pathlib import Path


def family(process: int) -> Iterator[int]:
    """A process and all below it, by number; those that end meanwhile may be missing."""
    yield process
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))
