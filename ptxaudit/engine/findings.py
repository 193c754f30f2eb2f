"""Joins a check's violations with the rule's pattern to findings that hold no IR.

A finding is told from others of its rule and function by what its instruction does, in the words in which PTX
and SASS are joined, and by its number among those that do the same. So it has the same fingerprint in either
language, where both show it, and from one compiler to the next.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.registry import Rule, needs_of
from ptxaudit.ir.events import Access, Event, GroupCommit, L1Invalidate, MemoryFlush
from ptxaudit.ir.function import BasicBlock, Function, Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.kinds import kind_of
from ptxaudit.ir.operands import (
    Immediate,
    LabelReference,
    Memory,
    Negated,
    Opaque,
    Operand,
    Register,
    Symbol,
    Vector,
)
from ptxaudit.ir.traits import Trait, traits_of
from ptxaudit.rules.model import CodePlace, Confidence, Finding, Severity, Violation
from ptxaudit.rules.pattern import Pattern
from ptxaudit.words import clipped

_SEVERITY_RANK = {severity: -severity.rank for severity in Severity}


def build_findings(
    rule: Rule, analysis: FunctionAnalysis, input_name: str, violations: tuple[Violation, ...]
) -> Iterator[Finding]:
    """The findings of one rule in one function, in program order, not :func:`numbered` yet.

    Raises ``KeyError`` when a violation lacks a detail that the pattern's message asks for.
    """
    if not violations:
        return iter(())
    occurrences = _occurrences(analysis.function, (violation.primary for violation in violations))
    return (
        _build(rule, analysis, input_name, violation, occurrences)
        for violation in sorted(violations, key=lambda one: one.primary.index)
    )


def numbered(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings of one function with fingerprints by their number among those that are alike."""
    ordinals: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        alike = finding.rule, finding.operation
        yield replace(finding, fingerprint=_fingerprint(finding, ordinals[alike]))
        ordinals[alike] += 1


def _build(
    rule: Rule,
    analysis: FunctionAnalysis,
    input_name: str,
    violation: Violation,
    occurrences: Mapping[int, tuple[int, int]],
) -> Finding:
    pattern, function = rule.pattern, analysis.function
    fields = {
        "function": function.demangled,
        "instruction": violation.primary.opcode,
        **violation.details,
    }
    return Finding(
        rule=pattern.id,
        category=pattern.category,
        severity=violation.severity or pattern.severity,
        confidence=violation.confidence or pattern.confidence,
        function=function.name,
        input=input_name,
        message=" ".join(pattern.message.format_map(fields).split()),
        primary=_place("primary", violation.primary, None),
        fingerprint="",
        related=tuple(_place("related", one.instruction, one.note) for one in violation.related),
        evidence=violation.evidence,
        path=tuple(block_label(function, block) for block in violation.path),
        fix=violation.fix or pattern.fix,
        cost=violation.cost or pattern.cost,
        witness=violation.witness,
        assumptions=violation.assumptions,
        operation=_operation(rule, analysis, violation.primary),
        likeness=_digest(normalise(violation.primary))[:12],
        occurrence=occurrences[violation.primary.index],
        architecture=function.architecture.name,
    )


def _occurrences(function: Function, instructions: Iterable[Instruction]) -> dict[int, tuple[int, int]]:
    """By index: its number, from 1, among those that differ in registers and labels only, and theirs."""
    opcodes = {one.opcode for one in instructions}
    alike: dict[str, list[int]] = defaultdict(list)
    for one in function.instructions:
        if one.opcode in opcodes:
            alike[normalise(one)].append(one.index)
    return {
        index: (number, len(several)) for several in alike.values() for number, index in enumerate(several, 1)
    }


# One language has these in an instruction of their own, the other in that of another event.
_APART_IN_ONE = L1Invalidate | MemoryFlush | GroupCommit


def _operation(rule: Rule, analysis: FunctionAnalysis, instruction: Instruction) -> str:
    """What an instruction does that the rule is about, else all that both languages show it to do."""
    events = analysis.events[instruction.index]
    about = next((found for need in needs_of(rule) or () if (found := _with_trait(events, need))), None)
    if about is None:
        about = [one for one in events if not isinstance(one, _APART_IN_ONE)] or list(events)
    words = sorted({_word(event) for event in about} - {""})
    return " and ".join(words) or "no synchronisation and no access"


def _with_trait(events: Iterable[Event], trait: Trait) -> list[Event]:
    return [event for event in events if trait in traits_of(event)]


def _word(event: Event) -> str:
    kind = kind_of(event)
    if kind is not None and kind.family:
        return kind.family
    return str(event.kind) if isinstance(event, Access) else ""


def _place(role: str, instruction: Instruction, note: str | None) -> CodePlace:
    return CodePlace(role, instruction.location, shown_text(instruction), note)


def shown_text(instruction: Instruction) -> str:
    """An instruction in one line, as reports show it."""
    return clipped(" ".join(instruction.text.split()))


def block_label(function: Function, block_id: int) -> str:
    """A block as a person finds it: its label and where it starts."""
    block: BasicBlock = function.blocks[block_id]
    if function.language is Language.SASS:
        place = f"{block.start_position:#06x}"
    else:
        place = f"line {block.start_position}"
    # nvdisasm has no names for blocks: a label that is made of the place says nothing more.
    named = block.label is not None and block.label.lstrip(".") != f"{block.start_position:#x}"
    return f"{block.label} ({place})" if named else place


def normalise(instruction: Instruction) -> str:
    """The instruction with registers' names and branch targets left out.

    Those change with every compilation; opcode, immediates and symbols tell one place from another.
    """
    guard = "" if instruction.guard is None else ("@! " if instruction.guard.negated else "@ ")
    operands = ", ".join(_shape(operand) for operand in instruction.operands)
    return f"{guard}{instruction.opcode} {operands}".strip()


def _shape(operand: Operand) -> str:
    match operand:
        case Register():
            return "r"
        case Immediate(value):
            return str(value)
        case Symbol(name):
            return name
        case LabelReference():
            return "label"
        case Negated(inner):
            return f"!{_shape(inner)}"
        case Vector(elements):
            return "{" + ", ".join(_shape(element) for element in elements) + "}"
        case Memory(terms, offset, coordinates, space):
            parts = [_shape(term) for term in terms] + [f"{offset:#x}"] + [_shape(c) for c in coordinates]
            return f"{space or ''}[{', '.join(parts)}]"
        case Opaque(text):
            return text


def _fingerprint(finding: Finding, ordinal: int) -> str:
    return _digest("\0".join((finding.rule, finding.function, finding.operation, str(ordinal))))[:20]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def is_strict_only(violation: Violation, pattern: Pattern) -> bool:
    """Whether only ``--strict`` shows it: a note of low confidence, by what the violation itself states."""
    severity = violation.severity or pattern.severity
    confidence = violation.confidence or pattern.confidence
    return severity is Severity.NOTE and confidence is Confidence.LOW


def report_order(finding: Finding) -> tuple[int, str, str, int, str]:
    """Worst first, then by rule, function and place."""
    location = finding.primary.location
    place = location.offset if location.offset is not None else (location.line or 0)
    return (
        _SEVERITY_RANK[finding.severity],
        finding.rule,
        finding.function,
        place,
        finding.fingerprint,
    )
