"""A tensor map is changed while a copy that goes by it may still be under way."""

from functools import partial

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks._grids import reached
from ptxaudit.checks._tensormaps import MapUse, modifications, uses
from ptxaudit.ir.events import (
    Access,
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    GroupKind,
    GroupWait,
    MbarrierWait,
    TensormapReplace,
)
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (Access, TensormapReplace)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every change that a copy by the same map reaches with nothing that waits for the copy."""
    changes = list(modifications(analysis))
    if not changes:
        return Outcome.not_applicable()
    violations: dict[int, Violation] = {}
    unknown: str | None = None
    for use in uses(analysis):
        way = set(reached(analysis, use.instruction.index, partial(_waits, analysis, use)))
        for instruction, name in changes:
            if instruction.index not in way:
                continue
            if name is None or use.name is None:
                unknown = f"whether the map changed at {instruction.location} is that of a copy is not known"
            elif name == use.name:
                related = (Related(use.instruction, "goes by the map and may be under way"),)
                violations.setdefault(instruction.index, Violation(instruction, {}, related))
    return Outcome.of(list(violations.values()), unknown)


def _waits(analysis: FunctionAnalysis, use: MapUse, index: int) -> bool:
    """Whether the copy may be known to be complete: by its own wait, or another thread's and a barrier."""
    for event in analysis.events[index]:
        match event:
            case MbarrierWait() if not use.stores:
                return True
            case GroupWait(kind=GroupKind.BULK):
                return True
            case CtaBarrier() | ClusterBarrier() if event.action is not BarrierAction.ARRIVE:
                return True
            case _:
                pass
    return False
