"""The cheaper forms that performance rules propose, and what the order engine says of them."""

from pathlib import Path

import pytest
from cost_support import of_file

from ptxaudit.cost.model import priced
from ptxaudit.engine.registry import load_registry
from ptxaudit.ir.events import Fence, MbarrierWait, Semantics
from ptxaudit.rules.model import Violation

FIXTURES = Path(__file__).parents[2] / "fixtures" / "performance"
RULES = load_registry()
ORDERED = "the order engine finds every access as well ordered with it"


def violation(name: str) -> Violation:
    path = FIXTURES / name
    analysis, rule = of_file(path), RULES[path.parent.name]
    (found,) = priced(analysis, rule.check(analysis).violations, rule.pattern.defaults)
    return found


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.ptx", "Wait at .relaxed.cluster, and put"),
        ("gpu-membar-in-hot-loop/remote_arrive_release_cluster.ptx", "Narrow it to .release.cta"),
        ("proxy-fence-wider-than-needed/every_tile.ptx", "Narrow it to fence.proxy.async.shared::cta"),
        ("release-wider-than-needed/at_entry.ptx", "Arrive .relaxed"),
    ],
)
def test_a_form_that_is_as_well_ordered_is_proposed_with_what_it_saves(name: str, form: str) -> None:
    found = violation(name)
    assert found.fix is not None
    assert found.fix.summary.startswith(form)
    assert found.fix.summary.endswith(f"{ORDERED}.")
    assert found.cheaper
    assert found.cost is not None
    assert "The cheaper form saves about" in found.cost.summary


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gpu-membar-in-hot-loop/fence_gpu_publish.ptx", "it may publish what was written to global memory"),
        ("gpu-membar-in-hot-loop/cluster_barrier_default_release.ptx", "would no longer be ordered"),
        ("l1-invalidate-in-poll-loop/flag_fence_in_poll.ptx", "that of a fence in the polling loop"),
        ("l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.sm_90a.cubin", "SASS does not tell"),
        ("release-wider-than-needed/credit_in_loop.ptx", "no execution ran to its end"),
    ],
)
def test_without_the_engine_s_word_no_form_is_proposed(name: str, reason: str) -> None:
    found = violation(name)
    assert found.fix is not None
    assert found.fix.summary.startswith("No cheaper form is proposed: ")
    assert reason in found.fix.summary
    assert not found.cheaper
    assert found.cost is not None
    assert "saves" not in found.cost.summary


def test_a_payload_in_global_memory_keeps_its_invalidate(tmp_path: Path) -> None:
    path = FIXTURES / "l1-invalidate-in-poll-loop" / "mailbox_acquire_cluster_loop.ptx"
    text = path.read_text().replace(
        "    bar.sync 0;\n    @%p_t0 mbarrier.arrive.release.cluster",
        "    st.global.u32 [%rd_out], %r_sum;\n    bar.sync 0;\n    @%p_t0 mbarrier.arrive.release.cluster",
    )
    assert text != path.read_text()
    changed = tmp_path / path.name
    changed.write_text(text)
    (found,) = RULES["l1-invalidate-in-poll-loop"].check(of_file(changed)).violations
    assert found.fix is not None
    assert "may lie in global memory" in found.fix.summary


def test_the_form_of_a_wait_is_a_relaxed_one_and_a_fence() -> None:
    (events,) = violation("l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.ptx").cheaper.values()
    wait, fence = events
    assert isinstance(wait, MbarrierWait)
    assert isinstance(fence, Fence)
    assert (wait.semantics, fence.semantics) == (Semantics.RELAXED, Semantics.ACQUIRE)


def test_the_cost_of_a_violation_is_what_it_adds() -> None:
    cost = violation("l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop.ptx").cost
    assert cost is not None
    assert cost.cycles is not None
    assert 200 < cost.cycles[0] <= cost.cycles[1] < 350, "no plain wait is in it"
    assert cost.frequency == "once per successful wait"
    assert cost.architecture == "sm_90"


def test_an_architecture_without_measurements_gets_a_rank() -> None:
    cost = violation("l1-invalidate-in-poll-loop/dsl_mailbox_loop.ptx").cost
    assert cost is not None
    assert cost.cycles is None
    ranked = "was not measured on this architecture; by what it costs on sm_90 it ranks number 2 here"
    assert ranked in cost.summary
