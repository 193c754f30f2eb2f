"""A tensor map in global memory is changed and then used with no acquire of the tensormap proxy."""

from functools import partial

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks._grids import reached
from ptxaudit.checks._tensormaps import acquires, modifications, uses
from ptxaudit.ir.events import Access, TensormapReplace
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (Access, TensormapReplace)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every use that a change of the same map reaches without an acquire."""
    changes = list(modifications(analysis))
    if not changes:
        return Outcome.not_applicable()
    violations: dict[int, Violation] = {}
    unknown: str | None = None
    for instruction, name in changes:
        if name is None:
            unknown = f"which tensor map is changed at {instruction.location} is not known"
            continue
        way = set(reached(analysis, instruction.index, partial(acquires, analysis, name)))
        for use in uses(analysis):
            if use.name is None and use.instruction.index in way:
                unknown = f"which tensor map is used at {use.instruction.location} is not known"
            elif use.name == name and use.instruction.index in way:
                related = (Related(instruction, "changes the map"),)
                violations.setdefault(use.instruction.index, Violation(use.instruction, {}, related))
    return Outcome.of(list(violations.values()), unknown)
