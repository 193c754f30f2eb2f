"""Every cheaper form that a performance rule proposes was measured to be no slower, and is found as well
ordered by the engine, on the kernels of the benchmark (``tests/benchmarks/gpu/costs``)."""

import importlib
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import load_registry
from ptxaudit.rules.model import Category

BENCHMARK = Path(__file__).parent / "benchmarks" / "gpu" / "costs"
# How far two forms that cost the same differ from one measurement to the next.
NOISE = 1.02
ORDERED = "the order engine finds every access as well ordered with it."
REMOVED = "Leave it out."
# The kernel with the dearer form, the one with the form that is proposed for it, the rule, the proposal's
# first and last words.
PROPOSALS = (
    (
        "ring.acquire.cluster.2w.1ld.4fma",
        "ring.restricted.2w.1ld.4fma",
        "l1-invalidate-in-poll-loop",
        "Wait at .relaxed.cluster, and put fence.acquire.sync_restrict::shared::cluster.cluster",
        ORDERED,
    ),
    (
        "ring.acquire.cluster.4w.0ld.16fma",
        "ring.restricted.4w.0ld.16fma",
        "l1-invalidate-in-poll-loop",
        "Wait at .relaxed.cluster, and put fence.acquire.sync_restrict::shared::cluster.cluster",
        ORDERED,
    ),
    (
        "flag.acquire.64t.1ld",
        "flag.relaxed+acquire.64t.1ld",
        "l1-invalidate-in-poll-loop",
        "Poll with a relaxed read, and put fence.acquire.gpu behind the loop",
        ORDERED,
    ),
    (
        "arrive.release.cluster.320t.0st.2ld",
        "arrive.default.320t.0st.2ld",
        "gpu-membar-in-hot-loop",
        "Narrow it to .release.cta",
        ORDERED,
    ),
    (
        "arrive.release.cluster.320t.0st.2ld",
        "arrive.default.320t.0st.2ld",
        "release-wider-than-needed",
        "Narrow it to .release.cta",
        ORDERED,
    ),
    (
        "cluster.release.96t.0st.0ld",
        "cluster.relaxed.96t.0st.0ld",
        "release-wider-than-needed",
        "Arrive .relaxed",
        ORDERED,
    ),
    (
        "handover.bar.sync twice.96t.3st.0ld",
        "handover.none.96t.3st.0ld",
        "redundant-synchronization",
        REMOVED,
        "",
    ),
    (
        "handover.fence.acq_rel.gpu twice.96t.3st.0ld",
        "handover.fence.acq_rel.gpu.96t.3st.0ld",
        "redundant-synchronization",
        REMOVED,
        "",
    ),
    (
        "wgmma.wait0.256t.3xn64",
        "wgmma.wait1.256t.3xn64",
        "wait-depth-too-conservative",
        "Leave one group pending in the loop",
        "",
    ),
)
# No loop of the benchmark has the async proxy read the tile, so there no fence is needed at all: that this
# rule's form is well ordered, test_cheaper_forms has on its fixture.
MEASURED_ONLY = {
    "proxy-fence-wider-than-needed": (
        ("tile.fence.proxy.async.96t.0st", "tile.fence.proxy.async.shared.96t.0st"),
        ("tile.fence.proxy.async.192t.3st", "tile.fence.proxy.async.shared.192t.3st"),
        ("tile.fence.proxy.async.256t.1st", "tile.fence.proxy.async.shared.256t.1st"),
    ),
}
# Says what to change in the source, and proposes no other form of an instruction.
PROPOSES_NONE = {"wgmma-serialized"}


@pytest.fixture(scope="module")
def held_out() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARK))
    yield importlib.import_module("held_out")
    sys.path.remove(str(BENCHMARK))


@pytest.fixture(scope="module")
def cycles() -> dict[str, float]:
    runs = json.loads((BENCHMARK / "held_out.json").read_text())["cycles"]
    return {name: statistics.median(values) for name, values in runs.items()}


def test_every_performance_rule_is_looked_at() -> None:
    rules = load_registry().values()
    performance = {rule.id for rule in rules if rule.pattern.category is Category.PERFORMANCE}
    assert performance == {one[2] for one in PROPOSALS} | MEASURED_ONLY.keys() | PROPOSES_NONE


def test_what_is_proposed_was_measured_no_slower(cycles: dict[str, float]) -> None:
    pairs = [one[:2] for one in PROPOSALS] + [pair for several in MEASURED_ONLY.values() for pair in several]
    slower = {pair: cycles[pair[1]] / cycles[pair[0]] for pair in pairs}
    assert not {pair: ratio for pair, ratio in slower.items() if ratio > NOISE}


@pytest.mark.parametrize(("dear", "cheap", "rule", "first", "last"), PROPOSALS)
def test_what_is_proposed_is_found_ordered(
    held_out: ModuleType, dear: str, cheap: str, rule: str, first: str, last: str
) -> None:
    image = image_of(f"{dear}.ptx", held_out.KERNELS[dear].text.encode())
    run = audit((image,), AuditOptions(rules=(load_registry()[rule],), assemble=False))
    fixes = [finding.fix.summary for finding in run.report.findings if finding.fix is not None]
    assert any(fix.startswith(first) and fix.endswith(last) for fix in fixes), fixes
