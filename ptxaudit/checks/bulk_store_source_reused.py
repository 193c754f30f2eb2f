"""Shared memory is overwritten, or its CTA ends, while a bulk store may still read it."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.checks._async_groups import depth_in_words, has_bulk_stores, issuer_waits, overwritten_sources
from ptxaudit.checks._gaps import gap_violation, gaps_of
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = (ev.Completion.BULK_GROUP,)

_AT_END = "may still be reading shared memory when its CTA ends: no wait for its group comes before"


def check(analysis: FunctionAnalysis) -> Outcome:
    """Overwrites of a bulk store's source that its issuer has not waited for, and stores never waited for."""
    return outcome(analysis, has_bulk_stores(analysis), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in overwritten_sources(report):
        if issuer_waits(race, ev.GroupKind.BULK) is not None:
            continue
        store, pending = place(race.first.step.instruction), depth_in_words(race, ev.GroupKind.BULK)
        problem = f"overwrites shared memory that {store} may still be reading: {pending}"
        yield violation(report, race, race.second.step.instruction, {"problem": problem})
    # The ISA does not say in so many words what becomes of such a copy, and NVIDIA's guide waits for it while
    # kernels that NVIDIA ships end without (trtllm-gen GEMMs of flashinfer-cubin 0.6.13): debatable.
    for gap in gaps_of(report, GapKind.SOURCE_MAY_END):
        missing = "no wait for the store's group before the CTA ends"
        yield gap_violation(report, gap, {"problem": _AT_END}, missing, Severity.NOTE)
