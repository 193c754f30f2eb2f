"""Joins a check's violations with the rule's pattern to findings that hold no IR."""

import hashlib
from collections import Counter
from collections.abc import Iterator

from ptxaudit.ir.function import BasicBlock, Function, Language
from ptxaudit.ir.instruction import Instruction
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
from ptxaudit.rules.model import CodePlace, Confidence, Finding, Severity, Violation
from ptxaudit.rules.pattern import Pattern
from ptxaudit.words import clipped

_SEVERITY_RANK = {severity: -severity.rank for severity in Severity}


def build_findings(
    pattern: Pattern, function: Function, input_name: str, violations: tuple[Violation, ...]
) -> Iterator[Finding]:
    """The findings of one rule in one function, in program order.

    Raises ``KeyError`` when a violation lacks a detail that the pattern's message asks for.
    """
    ordinals: Counter[str] = Counter()
    for violation in sorted(violations, key=lambda one: one.primary.index):
        normalised = normalise(violation.primary)
        fingerprint = _fingerprint(pattern.id, function.name, normalised, ordinals[normalised])
        ordinals[normalised] += 1
        yield _build(pattern, function, input_name, violation, fingerprint)


def _build(
    pattern: Pattern, function: Function, input_name: str, violation: Violation, fingerprint: str
) -> Finding:
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
        fingerprint=fingerprint,
        related=tuple(_place("related", one.instruction, one.note) for one in violation.related),
        evidence=violation.evidence,
        path=tuple(block_label(function, block) for block in violation.path),
        fix=violation.fix or pattern.fix,
        cost=violation.cost or pattern.cost,
        witness=violation.witness,
        assumptions=violation.assumptions,
    )


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


def _fingerprint(rule: str, function: str, normalised: str, ordinal: int) -> str:
    joined = "\0".join((rule, function, normalised, str(ordinal)))
    return hashlib.sha256(joined.encode()).hexdigest()[:20]


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
