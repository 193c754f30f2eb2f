"""The audit of one function: every rule's verdict and findings, and the faults met on the way.

An exception inside a check is a fault of ptxaudit: the rule's verdict is then ``unknown`` and the run says
so.
"""

import traceback
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.findings import build_findings, is_strict_only
from ptxaudit.engine.registry import Rule, needs_of
from ptxaudit.engine.thresholds import DEFAULTS, SetThresholds
from ptxaudit.errors import INTERNAL_ERROR, internal_error
from ptxaudit.ir.events import Transfer
from ptxaudit.ir.function import Function, Language, Module, UnreadFunction
from ptxaudit.ir.launch import Launch
from ptxaudit.rules.model import Category, Finding, Outcome, Verdict, Violation
from ptxaudit.rules.thresholds import Thresholds
from ptxaudit.stopwatch import STOPWATCH, Stage

_EXECUTIONS = frozenset({"order", "global order"})


@dataclass(frozen=True, slots=True)
class InternalError:
    """A fault of ptxaudit itself: one line, and the traceback for whoever mends it."""

    message: str
    traceback: str


@dataclass(slots=True)
class FunctionAudit:
    """What the rules say of one function. ``analysis`` is ``None`` where it could not be analysed.

    ``executed`` are the rules whose verdicts rest on executing the function. ``incomplete`` says why not all
    of it was done: it could not be read, or a limit was reached.
    """

    function: Function
    input: str
    analysis: FunctionAnalysis | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    internal_errors: list[InternalError] = field(default_factory=list)
    executed: set[str] = field(default_factory=set)
    incomplete: str | None = None

    def failed(self, rule: str) -> bool:
        """Whether a rule's check is at fault, which asking the other language would only repeat."""
        return self.reasons.get(rule, "").startswith(INTERNAL_ERROR)

    @property
    def applies(self) -> bool:
        """Whether some rule is about what the function has."""
        return any(verdict is not Verdict.NOT_APPLICABLE for verdict in self.verdicts.values())

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the order reports rest on; nothing when no rule asked for one."""
        if self.analysis is None:
            return ()
        if self.analysis.known("order") is None and self.analysis.known("global order") is None:
            return ()
        # Where no rule asked, the order engine need not even be loaded.
        from ptxaudit.analysis.order.explore import assumptions_of

        return assumptions_of(self.analysis)


@STOPWATCH.stage(Stage.RULES)
def prepare(function: Function, module: Module, input_name: str, launch: Launch | None) -> FunctionAudit:
    """An audit that no rule has been asked for yet."""
    return FunctionAudit(function, input_name, FunctionAnalysis(function, module, launch))


def unanalysed(
    function: Function, input_name: str, error: Exception, rules: tuple[Rule, ...]
) -> FunctionAudit:
    """The audit of a function whose analysis could not be set up: ``error`` is a fault of ptxaudit."""
    message = internal_error(error)
    fault = InternalError(f"{input_name}: {function.name}: {message}", traceback.format_exc())
    verdicts = {rule.id: Verdict.UNKNOWN for rule in rules}
    return FunctionAudit(function, input_name, None, verdicts, dict.fromkeys(verdicts, message), [], [fault])


def unread(function: UnreadFunction, module: Module, rules: tuple[Rule, ...]) -> FunctionAudit:
    """The audit of a function that could not be read, where others of its file could."""
    empty = Function(
        function.name,
        function.demangled,
        module.language,
        function.architecture,
        function.is_entry,
        (),
        (),
    )
    audit = FunctionAudit(empty, module.name)
    stop(audit, rules, function.reason)
    return audit


def without_needs(function: Function, input_name: str, rules: tuple[Rule, ...]) -> FunctionAudit:
    """The audit of a function that was not read because it has nothing that any rule is about."""
    verdicts = {rule.id: Verdict.NOT_APPLICABLE for rule in rules}
    return FunctionAudit(function, input_name, None, verdicts)


def stop(audit: FunctionAudit, rules: tuple[Rule, ...], reason: str) -> None:
    """Leave open the rules that have not judged a function yet."""
    audit.incomplete = reason
    for rule in rules:
        if rule.id not in audit.verdicts:
            audit.verdicts[rule.id] = Verdict.UNKNOWN
            audit.reasons[rule.id] = reason


def execute(audit: FunctionAudit) -> None:
    """Have a kernel executed, so that its roles are known, whether or not a rule asks for that."""
    if audit.analysis is None or not audit.function.is_entry:
        return
    # Where nobody asks, the order engine need not even be loaded.
    from ptxaudit.analysis.order.explore import order_of

    order_of(audit.analysis)


@STOPWATCH.stage(Stage.RULES)
def ask(
    audit: FunctionAudit, rules: tuple[Rule, ...], strict: bool, thresholds: SetThresholds = DEFAULTS
) -> None:
    """Let rules judge the function; what they say is added to the audit."""
    if audit.analysis is None:
        return
    names = (audit.function.name, audit.function.demangled)
    for rule in rules:
        audit.analysis.used.clear()
        outcome, findings = _judged(audit, audit.analysis, rule, strict, thresholds.of(rule.pattern, names))
        if not _EXECUTIONS.isdisjoint(audit.analysis.used):
            audit.executed.add(rule.id)
        audit.findings.extend(findings)
        audit.verdicts[rule.id] = outcome.verdict
        if outcome.reason is not None:
            audit.reasons[rule.id] = outcome.reason


def _judged(
    audit: FunctionAudit, analysis: FunctionAnalysis, rule: Rule, strict: bool, thresholds: Thresholds
) -> tuple[Outcome, list[Finding]]:
    try:
        outcome = _shown(rule, _not_ruled_out(analysis, rule, rule.judge(analysis, thresholds)), strict)
        if outcome.violations and rule.pattern.category is Category.PERFORMANCE:
            outcome = Outcome.of(_priced(analysis, outcome.violations, thresholds), outcome.reason)
        return outcome, list(build_findings(rule, analysis, audit.input, outcome.violations))
    except Exception as error:
        message = internal_error(error)
        place = f"{audit.input}: {audit.function.name}: {rule.id}"
        audit.internal_errors.append(InternalError(f"{place}: {message}", traceback.format_exc()))
        return Outcome(Verdict.UNKNOWN, (), message), []


def _not_ruled_out(analysis: FunctionAnalysis, rule: Rule, outcome: Outcome) -> Outcome:
    """That nothing is wrong with a kernel, only if every instruction of it is known; that a rule is not
    applicable to it, only if it is not to what it calls, either."""
    asked = analysis.function.is_entry and analysis.function.language.value in rule.pattern.inputs
    if not asked or outcome.verdict not in (Verdict.NOT_APPLICABLE, Verdict.CLEAN):
        return outcome
    unknown = analysis.first_unknown
    if unknown is not None:
        return Outcome.of(
            [], f"{unknown.opcode} is in no instruction table: it may be what the rule is about"
        )
    name = _called_for(analysis, rule) if outcome.verdict is Verdict.NOT_APPLICABLE else None
    if name is None:
        return outcome
    return Outcome.of([], f"{name} is called, which is not followed: it may have what the rule is about")


def _called_for(analysis: FunctionAnalysis, rule: Rule) -> str | None:
    """A function that a kernel calls and that the rule may be about."""
    # ptxas leaves few calls in SASS, and functions that a scan has ruled out are not at hand there.
    if analysis.function.language is not Language.PTX or not analysis.has(Transfer):
        return None
    from ptxaudit.analysis.order.calls import called

    behind = analysis.memo("called", lambda: called(analysis))
    needs = needs_of(rule) or ()
    return next((behind.traits[need] for need in needs if need in behind.traits), behind.unknown)


def _priced(
    analysis: FunctionAnalysis, violations: tuple[Violation, ...], thresholds: Thresholds
) -> tuple[Violation, ...]:
    # Where nothing is found, the measured tables need not be read.
    from ptxaudit.cost.model import priced

    with analysis.asked_beside():  # which roles pay is nothing that a verdict rests on
        return priced(analysis, violations, thresholds)


def _shown(rule: Rule, outcome: Outcome, strict: bool) -> Outcome:
    if outcome.verdict is Verdict.UNKNOWN and not outcome.reason:
        raise ValueError("unknown without a reason")
    if strict or not outcome.violations:
        return outcome
    kept: list[Violation] = [v for v in outcome.violations if not is_strict_only(v, rule.pattern)]
    return Outcome.of(kept, outcome.reason)
