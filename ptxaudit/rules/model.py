"""What a rule is, what a check answers and what a reader of a report gets.

A check (``ptxaudit.checks``) answers with an :class:`Outcome`. The engine joins each
:class:`Violation` with its rule's pattern to a :class:`Finding`, which holds no IR, so that reports
need none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ptxaudit.ir.events import Event
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.budget import Budget
from ptxaudit.source import Location
from ptxaudit.stopwatch import Timings
from ptxaudit.words import counted


class Category(StrEnum):
    """Whether a rule is about right results or about time."""

    CORRECTNESS = "correctness"
    PERFORMANCE = "performance"


class Severity(StrEnum):
    """``error`` needs a proof of the missing order, a plausible one is a ``warning``, a debatable one a
    ``note``."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return {"note": 1, "warning": 2, "error": 3}[self.value]


class Confidence(StrEnum):
    """How sure the analysis is that the finding describes what can happen."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Verdict(StrEnum):
    """What a rule says of a function."""

    FINDING = "finding"
    CLEAN = "clean"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Related:
    """Another instruction that a violation concerns, and what it has to do with it."""

    instruction: Instruction
    note: str


@dataclass(frozen=True, slots=True)
class WitnessStep:
    """One event of a schedule: ``role`` is who does it (``warps 4-7``, ``CTA 1``, ``TMA``)."""

    role: str
    text: str
    location: Location | None = None
    iteration: int | None = None


@dataclass(frozen=True, slots=True)
class WitnessEdge:
    """An order between two steps (indices into ``Witness.steps``); ``missing`` is the one not there."""

    source: int
    target: int
    label: str
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Witness:
    """A schedule that shows the violation: steps in the order that breaks it, and the edges that exist."""

    steps: tuple[WitnessStep, ...]
    edges: tuple[WitnessEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a synchronisation costs where it stands.

    ``frequency`` says how often it runs ("every poll attempt"); ``cycles`` is a measured range per
    execution (low, high) with the ``architecture`` it was measured on, or ``None``.
    """

    frequency: str
    summary: str
    cycles: tuple[int, int] | None = None
    architecture: str | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a rule is broken.

    ``details`` fill the pattern's message template. ``severity`` and ``confidence`` replace the
    pattern's; ``evidence`` are sentences that say how it was decided; ``path`` are the block ids from
    one instruction to the other; ``assumptions`` are what the verdict rests on. ``doubt`` says of a
    violation that no launch need show what would settle it. ``cheaper`` is a cheaper form, by the events that
    instructions (by index) would have in it; ``fix`` replaces the pattern's.
    """

    primary: Instruction
    details: Mapping[str, str] = field(default_factory=dict)
    related: tuple[Related, ...] = ()
    evidence: tuple[str, ...] = ()
    path: tuple[int, ...] = ()
    severity: Severity | None = None
    confidence: Confidence | None = None
    cost: Cost | None = None
    witness: Witness | None = None
    assumptions: tuple[str, ...] = ()
    doubt: str | None = None
    cheaper: Mapping[int, tuple[Event, ...]] = field(default_factory=dict)
    fix: "Fix | None" = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check says of one function. ``reason`` is required for ``unknown``.

    Violations and an unknown rest can stand together: the verdict is then ``finding`` and ``reason``
    says what else could not be decided.
    """

    verdict: Verdict
    violations: tuple[Violation, ...] = ()
    reason: str | None = None

    @staticmethod
    def of(violations: "list[Violation] | tuple[Violation, ...]", unknown: str | None = None) -> "Outcome":
        """``finding`` when there are violations, else ``unknown`` with a reason, else ``clean``."""
        if violations:
            return Outcome(Verdict.FINDING, tuple(violations), unknown)
        return Outcome(Verdict.CLEAN) if unknown is None else Outcome(Verdict.UNKNOWN, (), unknown)

    @staticmethod
    def not_applicable() -> "Outcome":
        """The function has none of the rule's operations."""
        return Outcome(Verdict.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A location in a finding with the code that stands there.

    ``twins`` are the same instruction elsewhere: in the other language, in the source. ``inlined`` are the
    lines of the source that were inlined at a place in the source, inwards from it.
    """

    role: str
    location: Location
    text: str
    note: str | None = None
    twins: "tuple[CodePlace, ...]" = ()
    inlined: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True)
class Fix:
    """How to mend it: a sentence, and code where a fixed form exists."""

    summary: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a reader gets. It cannot be built without a primary place.

    ``fingerprint`` comes from rule, function, ``operation`` and ordinal, never from line numbers.
    ``operation`` says what the primary instruction does in words that PTX and SASS share, ``likeness`` is the
    same for instructions that differ in registers and labels only, ``occurrence`` is the number of the
    primary one among those of its function, from 1, and how many they are. ``path`` are labels or positions
    of the blocks between the two places, for a person.
    """

    rule: str
    category: Category
    severity: Severity
    confidence: Confidence
    function: str
    input: str
    message: str
    primary: CodePlace
    fingerprint: str
    related: tuple[CodePlace, ...] = ()
    evidence: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    fix: Fix | None = None
    cost: Cost | None = None
    witness: Witness | None = None
    assumptions: tuple[str, ...] = ()
    suppressed: str | None = None
    operation: str = ""
    likeness: str = ""
    occurrence: tuple[int, int] | None = None
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class JoinReport:
    """How a function's PTX and SASS were joined.

    ``method`` in words, ``confidence`` in it; ``ptx`` and ``sass`` name the two, ``origin`` says where the
    one that was no input is from. ``dropped`` are the synchronisation events of the PTX that no SASS
    instruction shows, each with its line.
    """

    method: str
    confidence: Confidence
    ptx: str
    sass: str
    origin: str
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """A synchronisation of a function: its kind in words and what that is a kind of, whether it stands in a
    loop, and where it is."""

    kind: str
    family: str
    looped: bool
    location: Location


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """All verdicts of one function of one input; ``assumptions`` are what they rest on beyond the code.

    ``synchronisation`` are the function's synchronisations in program order, where the audit was asked to.

    Where PTX and SASS were joined, ``decided_by`` names for each decided rule the language that decides it
    (``ptx``, ``sass`` or ``both``) and ``settled`` are the rules that the other one left unknown.

    ``budget`` is what its synchronisation costs, where the audit was asked for it: of the SASS where that is
    at hand, which is what runs.

    ``incomplete`` says why the function was not audited in full: it could not be read, or took too much.
    """

    name: str
    demangled: str
    input: str
    arch: str
    evidence: str
    verdicts: Mapping[str, Verdict]
    unknown_reasons: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    synchronisation: tuple[Synchronisation, ...] = ()
    join: JoinReport | None = None
    decided_by: Mapping[str, str] = field(default_factory=dict)
    settled: tuple[str, ...] = ()
    budget: Budget | None = None
    incomplete: str | None = None


@dataclass(frozen=True, slots=True)
class InputReport:
    """One input and whether it could be read; ``notes`` are front-end remarks (unknown opcodes).

    ``same_as`` is the input of the same content under which functions and findings are reported.
    ``timings`` are processor seconds by stage, where the audit was asked for them.
    """

    path: str
    kind: str
    sha256: str
    error: str | None = None
    notes: tuple[str, ...] = ()
    same_as: str | None = None
    timings: Timings = field(default_factory=dict, compare=False)

    @property
    def status(self) -> str:
        """``audited`` or ``failed``."""
        return "audited" if self.error is None else "failed"


@dataclass(frozen=True, slots=True)
class SkippedInput:
    """A member of a container that was not audited, and why: its SASS is of an old architecture."""

    path: str
    kind: str
    sha256: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommentedSource:
    """A source in which something is said to ptxaudit: how a compiler named it, its text, and the (1-based)
    lines that audited code was compiled from."""

    file: str
    text: str
    compiled: frozenset[int]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Everything an audit found: what every output format is made from.

    ``skipped`` are members of containers for which no verdict is given. ``listings`` maps an input path to
    the text (PTX, or SASS listing) that excerpts are shown from; ``code`` maps a function's input and name to
    its code as a page keeps it. ``sources`` are those with comments for ptxaudit, by the way to them.
    ``notices`` are lines on the audit as a whole, such as suppressions that met no finding. ``timings`` are
    the processor seconds of all of it by stage, where the audit was asked for them. ``interrupted`` says what
    ended the audit before its end, ``faults`` counts the internal errors.
    """

    tool_version: str
    inputs: tuple[InputReport, ...]
    functions: tuple[FunctionReport, ...]
    findings: tuple[Finding, ...]
    listings: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    skipped: tuple[SkippedInput, ...] = ()
    timings: Timings = field(default_factory=dict, compare=False)
    code: Mapping[tuple[str, str], bytes] = field(default_factory=dict)
    sources: Mapping[str, CommentedSource] = field(default_factory=dict)
    interrupted: str | None = None
    faults: int = 0

    @property
    def shortcomings(self) -> tuple[str, ...]:
        """What keeps this report from being the whole answer, a phrase each; nothing where it is."""
        unread = sum(one.error is not None for one in self.inputs)
        parts = sum(one.incomplete is not None for one in self.functions)
        missing = (
            *([self.interrupted] if self.interrupted is not None else []),
            *([f"{counted(unread, 'input')} could not be read"] if unread else []),
            *([f"{counted(parts, 'function')} not audited in full"] if parts else []),
            *([counted(self.faults, "internal error")] if self.faults else []),
            *([f"{counted(len(self.skipped), 'image')} not audited"] if self.skipped else []),
        )
        return missing or (() if self.functions else ("no kernel was found",))
