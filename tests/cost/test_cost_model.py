"""Costs by measured table, and by the place that a violation stands in."""

from pathlib import Path

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks import gpu_membar_in_hot_loop, l1_invalidate_in_poll_loop
from ptxaudit.cost.measured import PROVENANCE, Operation, cycles
from ptxaudit.cost.model import priced
from ptxaudit.engine.inputs import load_module
from ptxaudit.rules.model import Cost

FIXTURES = Path(__file__).parents[2] / "fixtures" / "performance"
CHECKS = {
    "l1-invalidate-in-poll-loop": l1_invalidate_in_poll_loop.check,
    "gpu-membar-in-hot-loop": gpu_membar_in_hot_loop.check,
}


def costs(name: str, edits: tuple[tuple[str, str], ...] = ()) -> list[Cost]:
    path = FIXTURES / name
    data = path.read_bytes()
    for old, new in edits:
        assert old.encode() in data
        data = data.replace(old.encode(), new.encode())
    module = load_module(path.name, data)
    analysis = FunctionAnalysis(module.functions[0], module)
    rule = path.parent.name
    found = [violation.cost for violation in priced(analysis, rule, CHECKS[rule](analysis).violations)]
    assert found
    assert None not in found
    return [cost for cost in found if cost is not None]


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("loads", [0, 1, 8, 100])
def test_ranges_are_ranges(operation: Operation, loads: int) -> None:
    low, high = cycles(operation, loads)
    assert 0 <= low <= high


def test_an_invalidate_costs_only_with_loads() -> None:
    assert cycles(Operation.ACQUIRE_CLUSTER, 0) == (0, 6)
    assert cycles(Operation.ACQUIRE_CLUSTER, 1) == (235, 305)


@pytest.mark.parametrize(
    ("name", "frequency", "expected"),
    [
        (
            "l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.ptx",
            "once per successful wait",
            (235, 305),
        ),
        (
            "l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.sm_90a.cubin",
            "once per successful wait",
            (235, 305),
        ),
        ("l1-invalidate-in-poll-loop/flag_acquire_gpu.ptx", "every poll attempt", (235, 305)),
        ("l1-invalidate-in-poll-loop/flag_acquire_gpu.sm_90a.cubin", "every poll attempt", (235, 305)),
        ("l1-invalidate-in-poll-loop/flag_fence_in_poll.ptx", "every poll attempt", (631, 964)),
        ("gpu-membar-in-hot-loop/fence_gpu_publish.ptx", "every iteration", (279, 394)),
        ("gpu-membar-in-hot-loop/fence_sys_publish.ptx", "every iteration", (1035, 1866)),
        ("gpu-membar-in-hot-loop/remote_arrive_release_cluster.ptx", "every iteration", (279, 394)),
        (
            "gpu-membar-in-hot-loop/remote_arrive_release_cluster.sm_90a.cubin",
            "every iteration",
            (279, 394),
        ),
        ("gpu-membar-in-hot-loop/cluster_barrier_default_release.ptx", "every iteration", (279, 394)),
    ],
)
def test_cost_of_a_place(name: str, frequency: str, expected: tuple[int, int]) -> None:
    (cost,) = set(costs(name))
    assert cost.frequency == frequency
    assert cost.cycles == expected
    assert cost.architecture == PROVENANCE.architecture
    assert "not measured" not in cost.summary


def test_without_loads_in_the_loop_an_invalidate_costs_nothing() -> None:
    loads = (("ld.global.u32 %r_w, [%rd_row];", ""), ("ld.global.u32 %r_v, [%rd_in+4];", ""))
    (cost,) = costs("l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.ptx", loads)
    assert cost.cycles == (0, 6)
    assert "no load that could hit L1 follows" in cost.summary


def test_an_atomic_with_a_memory_barrier_before_it_is_charged_for_its_invalidate_only() -> None:
    both = (("atom.acquire.gpu", "atom.acq_rel.gpu"),)
    (cost,) = costs("l1-invalidate-in-poll-loop/flag_atomic_acquire.ptx", both)
    assert cost.cycles == (235, 305)


def test_an_architecture_that_was_not_measured_is_named() -> None:
    (cost,) = costs("l1-invalidate-in-poll-loop/dsl_mailbox_loop.ptx")
    assert cost.architecture == "sm_90a"
    assert cost.summary.endswith("not measured on sm_100a")


def test_a_rule_without_a_model_keeps_its_violations() -> None:
    path = FIXTURES / "l1-invalidate-in-poll-loop" / "flag_acquire_gpu.ptx"
    module = load_module(path.name, path.read_bytes())
    analysis = FunctionAnalysis(module.functions[0], module)
    violations = l1_invalidate_in_poll_loop.check(analysis).violations
    assert violations
    assert priced(analysis, "another-rule", violations) == violations
