"""One line of text for each event and operand, as ``ptxaudit dump events`` prints them.

Operands are written in the style of PTX assembly. What an event leaves open is left out, save where
the evidence cannot tell it (``None``), which reads ``?``.
"""

from functools import singledispatch

from ptxaudit.ir.events import (
    Access,
    Addressing,
    AddressMapping,
    ArriveSource,
    Backoff,
    ClusterBarrier,
    Completion,
    CtaBarrier,
    Election,
    Event,
    Fence,
    GridDependency,
    GroupCommit,
    GroupWait,
    L1Invalidate,
    MbarrierArrive,
    MbarrierCompleteTx,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    RegisterReconfigure,
    Scope,
    Semantics,
    StateSpace,
    TensormapReplace,
    TensorOperation,
    Transfer,
    UnknownEffect,
    WarpBarrier,
    WgmmaFence,
    WgmmaIssue,
)
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


def operand_text(operand: Operand) -> str:
    """An operand as an assembly listing would show it."""
    match operand:
        case Register(name) | Symbol(name) | LabelReference(name):
            return name
        case Immediate(value):
            return str(value)
        case Negated(inner):
            return f"!{operand_text(inner)}"
        case Vector(elements):
            return "{" + ", ".join(operand_text(element) for element in elements) + "}"
        case Memory():
            return _memory_text(operand)
        case Opaque(text):
            return text


def _memory_text(memory: Memory) -> str:
    text = "+".join(term.name for term in memory.terms)
    if memory.offset or not text:
        text = f"{text}{memory.offset:+d}" if text else f"{memory.offset:#x}"
    parts = [text, *(operand_text(part) for part in memory.coordinates)]
    prefix = "" if memory.space is None else memory.space
    bank = "" if memory.bank is None else f"[{memory.bank:#x}]"
    descriptor = "" if memory.descriptor is None else f"desc[{memory.descriptor.name}]"
    return f"{descriptor}{prefix}{bank}[{', '.join(parts)}]"


def _line(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


def _labelled(label: str, operand: Operand | None) -> str | None:
    return None if operand is None else f"{label} {operand_text(operand)}"


def _order(semantics: Semantics | None, scope: Scope | None) -> str:
    return f"{'?' if semantics is None else semantics}{'' if scope is None else scope}"


def _flag(value: bool, text: str) -> str | None:
    return text if value else None


def _at(space: StateSpace) -> str | None:
    return None if space is StateSpace.SHARED else f"in {space}"


def _registers(label: str, registers: tuple[Register, ...]) -> str | None:
    if not registers:
        return None
    names = [register.name for register in registers]
    shown = names if len(names) <= 4 else [names[0], "...", names[-1]]
    return f"{label} {{{', '.join(shown)}}} ({len(names)})"


def describe(event: Event) -> str:
    """One line that says what the event is, its operands and its ordering."""
    return _describe(event)


@singledispatch
def _describe(event: Event) -> str:
    raise TypeError(f"found {type(event).__name__}, expected an event")


@_describe.register
def _(event: Access) -> str:
    size = None
    if event.size is not None:
        size = f"{event.size} bytes"
    elif event.size_operand is not None:
        size = f"{operand_text(event.size_operand)} bytes"
    completion = None
    if event.completion is not Completion.SYNCHRONOUS:
        completion = _labelled(f"completes by {event.completion}", event.barrier)
        completion = completion or f"completes by {event.completion}"
    return _line(
        event.kind,
        event.space,
        operand_text(event.address),
        _flag(event.addressing is not Addressing.POINTER, f"({event.addressing})"),
        size,
        _order(event.semantics, event.scope),
        event.operation,
        None if event.cache is None else f"cache {event.cache}",
        _flag(event.proxy is not Proxy.GENERIC, f"{event.proxy} proxy"),
        _flag(event.multicast, "multicast"),
        completion,
    )


@_describe.register
def _(event: MbarrierInit) -> str:
    return f"mbarrier init {operand_text(event.address)} count {operand_text(event.count)}"


@_describe.register
def _(event: MbarrierInvalidate) -> str:
    return f"mbarrier inval {operand_text(event.address)}"


@_describe.register
def _(event: MbarrierArrive) -> str:
    return _line(
        "mbarrier arrive_drop" if event.drop else "mbarrier arrive",
        operand_text(event.address),
        _at(event.space),
        _labelled("count", event.count),
        _labelled("expect bytes", event.expect_bytes),
        _order(event.semantics, event.scope),
        _flag(event.source is not ArriveSource.THREAD, f"by {event.source}"),
        _flag(event.no_increment, "noinc"),
        _flag(event.multicast, "multicast"),
        _labelled("state", event.state),
    )


@_describe.register
def _(event: MbarrierExpect) -> str:
    address, count = operand_text(event.address), operand_text(event.bytes)
    return _line("mbarrier expect_tx", address, _at(event.space), f"bytes {count}")


@_describe.register
def _(event: MbarrierCompleteTx) -> str:
    return _line(
        "mbarrier complete_tx",
        operand_text(event.address),
        _at(event.space),
        _labelled("bytes", event.bytes),
        f"at {event.scope}",
        f"{event.proxy} proxy",
        _flag(event.multicast, "multicast"),
    )


@_describe.register
def _(event: MbarrierWait) -> str:
    return _line(
        "mbarrier wait",
        operand_text(event.address),
        _labelled("parity" if event.by_parity else "state", event.phase),
        _order(event.semantics, event.scope),
        "blocking" if event.blocking else "polling",
        _labelled("->", event.result),
    )


@_describe.register
def _(event: Fence) -> str:
    ordered = event.semantics is not None or event.scope is not None or event.proxy is None
    return _line(
        "fence",
        _order(event.semantics, event.scope) if ordered else None,
        None if event.proxy is None else f"proxy {event.proxy}",
        None if event.space is None else f"of {event.space}",
        None if event.sync_restrict is None else f"restricted to {event.sync_restrict}",
        _flag(event.mbarrier_init, "of mbarrier.init"),
        _labelled("at", event.address),
    )


@_describe.register
def _(event: CtaBarrier) -> str:
    return _line(
        f"CTA barrier {event.action}",
        operand_text(event.barrier),
        _labelled("threads", event.threads) or "all threads",
        _flag(event.aligned, "aligned"),
    )


@_describe.register
def _(event: WarpBarrier) -> str:
    return _line("warp barrier", _labelled("mask", event.mask))


@_describe.register
def _(event: ClusterBarrier) -> str:
    order = _order(event.semantics, None)
    return _line(f"cluster barrier {event.action}", order, _flag(event.aligned, "aligned"))


@_describe.register
def _(event: GroupCommit) -> str:
    return f"commit group of {event.kind}"


@_describe.register
def _(event: GroupWait) -> str:
    depth = "all" if event.depth is None else f"depth {event.depth}"
    return _line(f"wait group of {event.kind}", depth, _flag(event.read_only, "read"))


@_describe.register
def _(event: WgmmaFence) -> str:
    return "wgmma fence"


@_describe.register
def _(event: WgmmaIssue) -> str:
    return _line(
        "wgmma",
        event.shape,
        _registers("accumulators", event.accumulators),
        _registers("A", event.a_registers) or "A in shared memory",
    )


@_describe.register
def _(event: TensorOperation) -> str:
    return _line(
        f"tcgen05.{event.action}",
        _flag(event.pair, "pair"),
        None if event.address is None else operand_text(event.address),
        _labelled("columns", event.columns),
        _registers("registers", event.registers),
    )


@_describe.register
def _(event: L1Invalidate) -> str:
    return "L1 invalidate"


@_describe.register
def _(event: MemoryFlush) -> str:
    return _line(f"memory barrier {event.scope}", _flag(event.sc, "sc"))


@_describe.register
def _(event: RegisterReconfigure) -> str:
    return f"setmaxnreg {'inc' if event.increase else 'dec'} {event.registers}"


@_describe.register
def _(event: GridDependency) -> str:
    return f"griddepcontrol {event.action}"


@_describe.register
def _(event: TensormapReplace) -> str:
    return f"tensormap replace {operand_text(event.address)} in {event.space}"


@_describe.register
def _(event: AddressMapping) -> str:
    source, rank = operand_text(event.source), operand_text(event.rank)
    return f"mapa {event.result.name} = {source} in CTA {rank}"


@_describe.register
def _(event: Election) -> str:
    return _line("elect", operand_text(event.predicate), _labelled("of mask", event.mask))


@_describe.register
def _(event: Transfer) -> str:
    if event.kind == "call":
        return f"call {event.target or 'indirect'}"
    return str(event.kind)


@_describe.register
def _(event: Backoff) -> str:
    return "back off"


@_describe.register
def _(event: UnknownEffect) -> str:
    return f"unknown effect of {event.opcode}"
