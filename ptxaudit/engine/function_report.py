"""What a report says of a function: alone, or with the other language beside it."""

from collections import Counter
from dataclasses import replace

from ptxaudit.analysis.join import Join
from ptxaudit.engine.function_audit import FunctionAudit
from ptxaudit.engine.merge import BOTH, Merged
from ptxaudit.engine.twins import CONFIDENCE
from ptxaudit.ir.function import Function, Language
from ptxaudit.rules.model import FunctionReport, JoinReport, Synchronisation

REGISTERS = "registers per thread"
LOCAL_LOADS, LOCAL_STORES = "local loads (spills or arrays)", "local stores (spills or arrays)"


def report_alone(audit: FunctionAudit) -> FunctionReport:
    """The report of a function of which one language is at hand."""
    function = audit.function
    return FunctionReport(
        name=function.name,
        demangled=function.demangled,
        input=audit.input,
        arch=function.architecture.name,
        evidence=function.language.value,
        verdicts=audit.verdicts,
        unknown_reasons=audit.reasons,
        facts=_facts(function),
        assumptions=audit.assumptions,
        incomplete=audit.incomplete,
    )


def report_joined(
    first: FunctionAudit, second: FunctionAudit, merged: Merged, join: Join, origin: str
) -> FunctionReport:
    """The report of a function in both languages, under the name of the first."""
    function = first.function
    ptx, sass = (first, second) if function.language.value == "ptx" else (second, first)
    facts = {**_facts(sass.function), **_facts(ptx.function)}
    instructions = ptx.function.instructions
    dropped = (f"line {instructions[one.index].location.line}: {one.kind}" for one in join.dropped)
    joined = JoinReport(
        str(join.method), CONFIDENCE[join.method], ptx.input, sass.input, origin, tuple(dropped)
    )
    return FunctionReport(
        name=function.name,
        demangled=function.demangled,
        input=first.input,
        arch=sass.function.architecture.name,
        evidence=BOTH,
        verdicts=merged.verdicts,
        unknown_reasons=merged.reasons,
        facts=facts,
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        join=joined,
        decided_by=merged.decided_by,
        settled=merged.settled,
        incomplete=first.incomplete or second.incomplete,
    )


def with_synchronisation(report: FunctionReport, audit: FunctionAudit) -> FunctionReport:
    """The report with the synchronisations of the function, for a comparison."""
    # An audit that compares nothing does without.
    from ptxaudit.analysis.synchronisation import synchronisations

    if audit.analysis is None:
        return report
    instructions = audit.function.instructions
    found = (
        Synchronisation(one.kind.name, one.kind.family, one.looped, instructions[one.index].location)
        for one in synchronisations(audit.analysis)
    )
    return replace(report, synchronisation=tuple(found))


def _facts(function: Function) -> dict[str, str]:
    """What the code states about its launch, for a person."""
    facts = function.facts
    stated = {
        "threads per CTA": facts.threads,
        "cluster size": facts.cluster_size,
        REGISTERS: facts.registers,
        "registers per thread at most": facts.maximum_registers,
        "minimum CTAs per multiprocessor": facts.minimum_ctas,
    }
    if function.language is Language.SASS:
        stated |= _local_accesses(function)
    known = {name: str(value) for name, value in stated.items() if value is not None}
    return {"kind": "kernel" if function.is_entry else "function", **known}


def _local_accesses(function: Function) -> dict[str, int | None]:
    """How many instructions load from and store to local memory (LDL, STL): spills, arrays of a thread."""
    if function.opcode_counts is not None:
        opcodes = function.opcode_counts
    elif function.instructions:
        opcodes = Counter(instruction.opcode.partition(".")[0] for instruction in function.instructions)
    else:
        return {}  # it could not be read
    return {LOCAL_LOADS: opcodes["LDL"], LOCAL_STORES: opcodes["STL"]}
