"""The numbers in the texts of performance rules are those of the measured table."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.cost.table import table_for

PATTERNS = Path(__file__).parents[1] / "patterns" / "performance"
NONE = (0,)
SOME = (1, 2, 4, 8)
FENCES = ("fence.acq_rel.cluster", "fence.acq_rel.gpu")


@dataclass(frozen=True, slots=True)
class Stated:
    """A range of cycles that a text states: of operations, over all threads, at these loads and stores."""

    operations: tuple[str, ...]
    loads: tuple[int, ...]
    stores: tuple[int, ...]


# Each range of a rule's text, in the order of the text.
STATED = {
    "l1-invalidate-in-poll-loop": (
        Stated(("mbarrier.wait.acquire.cluster",), NONE, NONE),
        Stated(("mbarrier.wait.acquire.cluster",), SOME, NONE),
    ),
    "gpu-membar-in-hot-loop": (
        Stated(FENCES, NONE, NONE),
        Stated(FENCES, NONE, SOME),
        Stated(FENCES, SOME, NONE),
        Stated(("fence.acq_rel.sys",), (0, *SOME), (0, *SOME)),
    ),
    "proxy-fence-wider-than-needed": (
        Stated(("fence.proxy.async.shared::cta",), NONE, NONE),
        Stated(("fence.proxy.async",), NONE, NONE),
        Stated(("fence.proxy.async",), NONE, SOME),
    ),
    "release-wider-than-needed": (
        Stated(("mbarrier.arrive.release.cluster",), NONE, NONE),
        Stated(("mbarrier.arrive.release.cluster",), NONE, SOME),
    ),
    "redundant-synchronization": (Stated(("barrier.cta",), NONE, NONE),),
}


def measured(one: Stated) -> tuple[int, int]:
    """The least and the most median of the points that a range is of."""
    table = table_for(Architecture(90))
    assert table is not None
    medians = [
        max(0.0, cycles)
        for operation in one.operations
        for (_, loads, stores, _), (cycles, _, _) in table.operations[operation].alone.points.items()
        if loads in one.loads and stores in one.stores
    ]
    return round(min(medians)), round(max(medians))


def cost(rule: str) -> dict[str, Any]:
    """The costs that a rule states."""
    stated: dict[str, Any] = tomllib.loads((PATTERNS / f"{rule}.toml").read_text())["cost"]
    return stated


def ranges(text: str) -> list[tuple[int, int]]:
    """The ranges of cycles in a text, but those of other things."""
    spaced = " ".join(text.split())
    number = r"(\d[\d,]*)"
    found: Iterable[tuple[str, str]] = re.findall(rf"{number} to {number}\b(?! threads| per thread)", spaced)
    return [(int(low.replace(",", "")), int(high.replace(",", ""))) for low, high in found]


@pytest.mark.parametrize("rule", sorted(STATED))
def test_a_text_states_what_was_measured(rule: str) -> None:
    assert ranges(cost(rule)["summary"]) == [measured(one) for one in STATED[rule]]


@pytest.mark.parametrize("rule", sorted(path.stem for path in PATTERNS.glob("*.toml")))
def test_no_other_text_states_cycles(rule: str) -> None:
    stated = cost(rule)
    assert rule in STATED or not ranges(stated["summary"])
    if "cycles" in stated:
        assert tuple(stated["cycles"]) in {measured(one) for one in STATED[rule]}
