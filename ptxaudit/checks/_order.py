"""What the checks that ask the order engine share: outcomes, severities and witnesses."""

from collections.abc import Callable, Iterable, Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.knowledge import FailedLink, Moment
from ptxaudit.analysis.order.races import Alias, Link, Race
from ptxaudit.analysis.order.shapes import UNSTATED_BLOCK
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import (
    Confidence,
    Outcome,
    Related,
    Severity,
    Violation,
    Witness,
    WitnessEdge,
    WitnessStep,
)
from ptxaudit.words import brief

SCOPES_NEED_PTX = (
    "SASS shows the same instructions for a wait at .cta and for a relaxed wait with a restricted acquire "
    "fence; the PTX decides"
)

DOUBTFUL = (
    "a violation shows only in a run whose conditions need not be possible together (--strict shows it, "
    "--launch can settle it)"
)


def outcome(
    analysis: FunctionAnalysis, applicable: bool, find: Callable[[OrderReport], Iterable[Violation]]
) -> Outcome:
    """The outcome of a check on the order report: what ``find`` finds, else clean if all was explored."""
    if not applicable or not analysis.function.is_entry:
        return Outcome.not_applicable()
    report = order_of(analysis)
    return outcome_of(report, find(report))


def outcome_of(report: OrderReport, found: Iterable[Violation], undecided: str | None = None) -> Outcome:
    """The outcome for the violations of a report; ``undecided`` is what the check itself left open."""
    unique: dict[int, Violation] = {}
    for violation in found:
        known = unique.get(violation.primary.index)
        if known is None or is_doubtful(known):
            unique[violation.primary.index] = violation
    reason = incomplete(report) or undecided
    doubtful = [one for one in unique.values() if is_doubtful(one)]
    if reason is None and doubtful:
        reason = next((one.doubt for one in doubtful if one.doubt is not None), DOUBTFUL)
    return Outcome.of(list(unique.values()), reason)


def is_doubtful(violation: Violation) -> bool:
    """Whether a violation shows only in a run that no launch may ever take."""
    return violation.severity is Severity.NOTE and violation.confidence is Confidence.LOW


def scope_outcome(
    analysis: FunctionAnalysis, applicable: bool, find: Callable[[OrderReport], Iterable[Violation]]
) -> Outcome:
    """The outcome of a scope rule: undecidable from SASS as soon as CTAs synchronise with each other."""
    if not applicable:
        return Outcome.not_applicable()
    if analysis.function.language is Language.SASS:
        return Outcome.of([], SCOPES_NEED_PTX if crosses_ctas(analysis) else None)
    return outcome(analysis, applicable, find)


def incomplete(report: OrderReport) -> str | None:
    """Why a report does not settle a question for good, in words, or ``None``."""
    if report.reason is not None:
        return report.reason
    if report.unresolved:
        step = report.unresolved[0]
        code = brief(step.instruction.text)
        return f"{step.unresolved} is not known at {step.instruction.location} ({code})"
    return None


def crosses_ctas(analysis: FunctionAnalysis) -> bool:
    """Whether the function addresses barriers or memory of other CTAs of its cluster."""
    for instruction, events in zip(analysis.function.instructions, analysis.events, strict=True):
        if instruction.opcode.startswith(("mapa", "STAS", "REDAS", "SYNCS.ARRIVE.TRANS64.RED")):
            return True
        for event in events:
            remote_copy = isinstance(event, ev.MbarrierCompleteTx) and event.proxy is ev.Proxy.GENERIC
            if remote_copy or isinstance(event, ev.AddressMapping):
                return True
    return False


def violation(
    report: OrderReport,
    race: Race,
    primary: Instruction,
    details: dict[str, str],
    related: tuple[Related, ...] = (),
    severity: Severity | None = None,
) -> Violation:
    """A violation that rests on a race, with its witness."""
    confidence = None if race.certain else Confidence.MEDIUM
    if not race.certain:
        severity = severity or Severity.WARNING
    if race.doubtful:
        severity, confidence = Severity.NOTE, Confidence.LOW
    return Violation(
        primary,
        details,
        related or _both(race, primary),
        _evidence(report, race),
        severity=severity,
        confidence=confidence,
        witness=race_witness(race),
        assumptions=tuple(_assumptions(report, race)),
        doubt=_doubt(report, race),
    )


def _assumptions(report: OrderReport, race: Race) -> Iterator[str]:
    """What a race rests on: where another block shows it, that block."""
    other = report.other_block(race.execution)
    for assumption in report.assumptions:
        if other is None or not assumption.startswith(UNSTATED_BLOCK):
            yield assumption
        else:
            yield f"{UNSTATED_BLOCK} (--launch can state it); {other.threads} threads show it"


def _doubt(report: OrderReport, race: Race) -> str | None:
    """What to do about a race that only another block than the assumed one shows."""
    other = report.other_block(race.execution)
    if other is None or report.shape is None or not race.doubtful:
        return None
    return (
        f"{UNSTATED_BLOCK}: {report.shape.threads} threads were assumed and show no violation, "
        f"{other.threads} show one; state it (--launch FILE with [[launch]] and block = [{other.threads}], "
        "or __launch_bounds__ in the source); --strict shows the violation"
    )


def _both(race: Race, primary: Instruction) -> tuple[Related, ...]:
    notes = ((race.first.step, "the earlier access"), (race.second.step, "the later access"))
    return tuple(
        Related(step.instruction, f"{note}, by {role_of(race.execution, step)}")
        for step, note in notes
        if step.instruction is not primary
    )


def _evidence(report: OrderReport, race: Race) -> tuple[str, ...]:
    run = report.run_of(race.execution)
    shape = report.shape if run is None else run.shape
    assert shape is not None
    launch = f"{shape.threads} threads a CTA, {shape.ctas} CTA{'s' if shape.ctas > 1 else ''} a cluster"
    explored = f"Found by executing the synchronisation skeleton ({launch}) in {len(report.executions)} runs."
    return (f"Missing link: {race.link.value}.", explored)


def place(instruction: Instruction) -> str:
    """An instruction as a message names it: opcode and where it stands."""
    location = instruction.location
    where = f"line {location.line}" if location.line is not None else f"{location.offset:#x}"
    if location.offset is not None:
        where = f"{location.offset:#x}"
    return f"{instruction.opcode} ({where})"


def role_of(execution: Execution | None, step: Step) -> str:
    """Who executed a step, in words."""
    if execution is None:
        return f"warp {step.warp}"
    identity = execution.warps[step.warp]
    several = len({warp.cta for warp in execution.warps}) > 1
    return f"CTA {identity.cta} warp {identity.warp}" if several else f"warp {identity.warp}"


def race_witness(race: Race) -> Witness:
    """The two accesses, what releases between them, and the missing order."""
    first, second = race.first.step, race.second.step
    steps = [_witness_step(race.execution, first, race.first)]
    edges: list[WitnessEdge] = []
    if race.release is not None:
        steps.append(_witness_step(race.execution, race.release, None))
        edges.append(WitnessEdge(0, 1, "program order"))
    if race.failed is not None:
        steps.append(_witness_step(race.execution, race.failed.wait, None))
        edges.append(WitnessEdge(0, len(steps) - 1, "completes the phase"))
    steps.append(_witness_step(race.execution, second, race.second))
    last = len(steps) - 1
    if last > 1:
        edges.append(WitnessEdge(last - 1, last, "observed in time"))
    edges.append(WitnessEdge(0, last, race.link.value, missing=True))
    return Witness(tuple(steps), tuple(edges))


def _witness_step(execution: Execution | None, step: Step, moment: Moment | None) -> WitnessStep:
    instruction = step.instruction
    role = role_of(execution, step)
    if moment is not None and moment.asynchronous:
        role += ", asynchronously"
    return WitnessStep(role, brief(instruction.text), instruction.location, step.visit)


def certain_first(aliases: list[Alias]) -> list[Alias]:
    """The aliases that are certain to be possible, or all when every one is in doubt."""
    return [alias for alias in aliases if not alias.doubtful] or aliases


def alias_witness(alias: Alias) -> Witness:
    """A schedule in which the arrive or wait meets the phase before the one meant."""
    steps = [
        WitnessStep(
            role_of(alias.execution, alias.step),
            f"{brief(alias.step.instruction.text)} (meant for phase {alias.record.phase})",
            alias.step.instruction.location,
            alias.step.visit,
        )
    ]
    edges: list[WitnessEdge] = []
    if alias.missing is not None:
        missing = alias.missing
        steps.append(
            WitnessStep(
                role_of(alias.execution, missing),
                f"{brief(missing.instruction.text)} (phase {alias.record.phase - 1}, not yet executed)",
                missing.instruction.location,
                missing.visit,
            )
        )
        edges.append(WitnessEdge(1, 0, "nothing orders this before", missing=True))
    return Witness(tuple(steps), tuple(edges))


def barrier_name(key: BarrierKey) -> str:
    """A barrier object in words."""
    return f"the mbarrier at {key[2]:#x}" if key[0] == "mbarrier" else str(key[2])


def is_wgmma_read(moment: Moment) -> bool:
    """Whether an access is the read of shared memory by an asynchronous wgmma."""
    event = moment.step.event
    return isinstance(event, ev.Access) and event.completion is ev.Completion.WGMMA_GROUP


def hands_over_nothing(failed: FailedLink) -> bool:
    """A cluster barrier that hands over nothing, or an arrive of the same CTA: no rule on scopes."""
    last = failed.contribution.steps[-1].event
    return failed.reason == "arrive-relaxed" and not isinstance(last, ev.MbarrierArrive)


def races_of(report: OrderReport, *links: Link) -> list[Race]:
    """Races with one of the missing links, none that only follows from a phase alias."""
    return [race for race in report.races if race.link in links]
