"""A function in PTX and in SASS: joined, and reported as one."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.join import Join, SassLines, belong_together, join_functions, join_through
from ptxaudit.engine.counterpart import Reassembled, lines_of
from ptxaudit.engine.function_audit import FunctionAudit, InternalError
from ptxaudit.engine.function_report import report_joined
from ptxaudit.engine.merge import merge
from ptxaudit.engine.registry import Rule
from ptxaudit.engine.twins import Twins
from ptxaudit.errors import internal_error
from ptxaudit.frontends.sass.elf import DebugLines
from ptxaudit.ir.function import Language, Module
from ptxaudit.rules.model import Finding, FunctionReport
from ptxaudit.stopwatch import STOPWATCH, Stage

NOT_TOGETHER = (
    "the PTX and the SASS show different kinds of synchronisation: neither settles what the other leaves open"
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The module in the other language, what is known of lines, and in words where it is from.

    ``lines`` are the cubin's tables (``None`` where they cannot be used), ``again`` the same PTX assembled
    anew, where the cubin's own tables do not tell PTX lines.
    """

    module: Module
    lines: DebugLines | None
    origin: str
    again: Reassembled | None = None


@dataclass(frozen=True, slots=True)
class JoinedFunction:
    """One function's report and findings from both languages; ``sources`` are the lines of the source by
    SASS instruction."""

    report: FunctionReport
    findings: tuple[Finding, ...]
    join: Join
    sources: Mapping[int, tuple[str, int]]


@STOPWATCH.stage(Stage.JOINING)
def join_audits(
    first: FunctionAudit, second: FunctionAudit, evidence: Evidence, rules: tuple[Rule, ...]
) -> JoinedFunction | InternalError:
    """Join and merge what was said of a function in two languages; reported under the first's name."""
    is_ptx = first.function.language is Language.PTX
    ptx, sass = (first, second) if is_ptx else (second, first)
    try:
        assert ptx.analysis is not None and sass.analysis is not None
        lines = SassLines() if evidence.lines is None else lines_of(sass.function, evidence.lines)
        join = _join(ptx.analysis, sass.analysis, evidence.again, lines)
        twins = Twins(ptx.function, sass.function, join, lines.source)
        together = belong_together(ptx.analysis, sass.analysis, join)
        merged = merge(ptx, sass, rules, twins, together)
        report = report_joined(first, second, merged, join, evidence.origin)
        if not together:
            report = replace(report, assumptions=(*report.assumptions, NOT_TOGETHER))
    except Exception as error:
        message = f"{first.input}: {first.function.name}: joining PTX and SASS: {internal_error(error)}"
        return InternalError(message, traceback.format_exc())
    findings = tuple(replace(finding, input=first.input) for finding in merged.findings)
    return JoinedFunction(report, findings, join, lines.source)


def _join(ptx: FunctionAnalysis, sass: FunctionAnalysis, again: Reassembled | None, lines: SassLines) -> Join:
    if again is None or lines.ptx:
        return join_functions(ptx, sass, lines)
    functions = {one.name: one for one in again.module.functions}
    function = functions.get(ptx.function.name)
    if function is None:
        return join_functions(ptx, sass, lines)
    through = FunctionAnalysis(function, again.module)
    return join_through(ptx, sass, through, lines_of(function, again.lines))
