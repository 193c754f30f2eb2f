"""What ``ptxaudit dump`` prints: one dumper for each analysis, each a function of a function's analysis.

To add an analysis, add its dumper to :data:`DUMPERS`; where it has a structured form, add that to
:data:`STRUCTURED` as well.
"""

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ptxaudit.errors import UsageError
from ptxaudit.ir.function import BasicBlock, Language

if TYPE_CHECKING:
    from ptxaudit.analysis.context import FunctionAnalysis

# Each dumper loads its own analysis, so that the command line can name them all without loading any.


def dump_cfg(analysis: "FunctionAnalysis") -> str:
    """Blocks with their range and successors; loops are marked at their header."""
    headers = {loop.header: loop for loop in analysis.graph.loops}
    lines = []
    for block in analysis.function.blocks:
        name = f" {block.label}" if block.label else ""
        successors = " ".join(f"B{successor}" for successor in block.successors) or "exit"
        loop = f"  (loop header, depth {headers[block.id].depth})" if block.id in headers else ""
        lines.append(f"B{block.id}{name} {_span(analysis, block)} -> {successors}{loop}")
    return "\n".join(lines)


def dump_events(analysis: "FunctionAnalysis") -> str:
    """Each instruction with its place and the events it gives."""
    from ptxaudit.ir.describe import describe

    lines = []
    for instruction in analysis.function.instructions:
        lines.append(f"{_position(analysis, instruction.index)}  {_one_line(instruction.text)}")
        lines += [f"          {describe(event)}" for event in analysis.events[instruction.index]]
    return "\n".join(lines)


def dump_roles(analysis: "FunctionAnalysis") -> str:
    """The warps that act alike, what they do, and what that rests on."""
    from ptxaudit.analysis.order.explore import order_of
    from ptxaudit.analysis.order.roles import roles_of

    report = order_of(analysis)
    lines = []
    if report.shape is not None:
        lines.append(f"{report.shape.threads} threads a CTA, {report.shape.ctas} CTAs a cluster")
    for role in roles_of(report):
        lines.append(f"CTA {role.cta} {role.name}")
        lines += [f"    {count:4d} x {activity}" for activity, count in role.activities]
    lines += [f"assumes: {assumption}" for assumption in report.assumptions]
    if report.reason is not None:
        lines.append(f"incomplete: {report.reason}")
    return "\n".join(lines)


def dump_groups(analysis: "FunctionAnalysis") -> str:
    """The commit groups of asynchronous operations and what waits for them."""
    from ptxaudit.analysis import group_dump

    return group_dump.dump_groups(analysis)


def dump_order(analysis: "FunctionAnalysis") -> str:
    """The executions that the order engine looked at, and the unordered pairs it found."""
    from ptxaudit.analysis.order.explore import order_of

    report = order_of(analysis)
    lines = []
    for number, execution in enumerate(report.executions):
        state = "complete" if execution.complete else "not complete"
        lines.append(f"execution {number}: {len(execution.entries)} entries, {state}")
        lines += [f"    decided: {decision.text} is {decision.outcome}" for decision in execution.decisions]
    for race in report.races:
        first, second = race.first.step.instruction, race.second.step.instruction
        lines.append(f"unordered: {_position(analysis, first.index)} {_one_line(first.text)}")
        lines.append(f"      and: {_position(analysis, second.index)} {_one_line(second.text)}")
        lines.append(f"  missing: {race.link.value}")
    for alias in report.aliases:
        place = _position(analysis, alias.step.instruction.index)
        lines.append(f"phase {alias.record.phase} may be another: {place} {alias.step.instruction.text}")
    lines += [f"assumes: {assumption}" for assumption in report.assumptions]
    return "\n".join(lines)


def cfg_document(analysis: "FunctionAnalysis") -> dict[str, Any]:
    """The blocks as plain data: ``start`` inclusive and ``end`` exclusive, byte offsets or lines."""
    return {
        "blocks": [
            {
                "id": block.id,
                "start": block.start_position,
                "end": block.end_position,
                "successors": list(block.successors),
            }
            for block in analysis.function.blocks
        ]
    }


def events_document(analysis: "FunctionAnalysis") -> dict[str, Any]:
    """Every instruction with its place and events, as plain data."""
    from ptxaudit.ir.describe import describe

    return {
        "instructions": [
            {
                "position": _position_number(analysis, instruction.index),
                "text": _one_line(instruction.text),
                "events": [describe(event) for event in analysis.events[instruction.index]],
            }
            for instruction in analysis.function.instructions
        ]
    }


def cfg_dot(analysis: "FunctionAnalysis") -> str:
    """The graph as a DOT subgraph."""
    prefix = json.dumps(analysis.function.name)[1:-1]
    lines = [f'subgraph "cluster_{prefix}" {{', f'label="{prefix}";']
    for block in analysis.function.blocks:
        name = f"{block.label}\\n" if block.label else ""
        label = f"B{block.id} {name}{_span(analysis, block)}"
        lines.append(f'"{prefix}.{block.id}" [shape=box, label="{label}"];')
        lines += [f'"{prefix}.{block.id}" -> "{prefix}.{successor}";' for successor in block.successors]
    return "\n".join([*lines, "}"])


DUMPERS: "dict[str, Callable[[FunctionAnalysis], str]]" = {
    "cfg": dump_cfg,
    "events": dump_events,
    "groups": dump_groups,
    "order": dump_order,
    "roles": dump_roles,
}
STRUCTURED: "dict[str, Callable[[FunctionAnalysis], dict[str, Any]]]" = {
    "cfg": cfg_document,
    "events": events_document,
}
FORMATS = ("text", "json", "dot")


def render_dump(name: str, output: str, analyses: "Iterable[FunctionAnalysis]") -> str:
    """The dump ``name`` of several functions as ``text``, ``json`` or ``dot`` (``cfg`` only).

    JSON is ``{"functions": [{"name", ...}]}``; an analysis without a structured form gives its text
    under ``lines``. Raises :class:`UsageError` for a format that the analysis does not have.
    """
    if output == "dot":
        if name != "cfg":
            raise UsageError(f"found --format dot for {name}, expected text or json (dot is for cfg)")
        return "\n".join(["digraph {", *(cfg_dot(analysis) for analysis in analyses), "}"])
    if output == "json":
        functions = [{"name": one.function.name, **_structured(name, one)} for one in analyses]
        return json.dumps({"functions": functions}, indent=1)
    return "\n\n".join(f"{one.function.demangled}:\n{DUMPERS[name](one)}" for one in analyses)


def _structured(name: str, analysis: "FunctionAnalysis") -> dict[str, Any]:
    if name in STRUCTURED:
        return STRUCTURED[name](analysis)
    return {"lines": DUMPERS[name](analysis).splitlines()}


def _span(analysis: "FunctionAnalysis", block: BasicBlock) -> str:
    if analysis.function.language is Language.SASS:
        return f"{block.start_position:#06x}..{block.end_position:#06x}"
    return f"lines {block.start_position}..{block.end_position}"


def _position_number(analysis: "FunctionAnalysis", index: int) -> int | None:
    location = analysis.function.instructions[index].location
    return location.line if location.offset is None else location.offset


def _position(analysis: "FunctionAnalysis", index: int) -> str:
    location = analysis.function.instructions[index].location
    return f"{location.line or 0:>8}" if location.offset is None else f"  {location.offset:#06x}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
