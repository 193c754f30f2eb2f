"""All bounded runs of one litmus thread, each read taking any value that its location may hold."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .events import Event, Kind, ProxyFence, Scope
from .litmus_format import Address, Instruction, LitmusError, Test

LOADS = {"ld": "generic", "tld": "texture", "suld": "surface", "cold": "constant"}
STORES = {"st": "generic", "sust": "surface"}
ATOMICS = {"atom": "generic", "suatom": "surface", "red": "generic", "sured": "surface"}
SCOPES = {"cta": Scope.CTA, "gpu": Scope.GPU, "sys": Scope.SYS}
COMPARE = {
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: a < b,
    "bgt": lambda a, b: a > b,
    "ble": lambda a, b: a <= b,
    "bge": lambda a, b: a >= b,
}
ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
}
VISITS = 3  # how often one backward branch target may be reached


@dataclass(frozen=True, slots=True)
class Barrier:
    """A `bar` executed: its instance, its dynamic identifier and quorum, and where it stands."""

    instance: str
    identifier: int | None
    quorum: int | None
    blocks: bool
    position: int


@dataclass(frozen=True, slots=True)
class Step:
    """An executed event, the earlier steps of the trace that it depends on, and its barrier."""

    event: Event
    depends: frozenset[int] = frozenset()
    barrier: Barrier | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of one thread: events in program order, atomic pairs and final registers."""

    steps: tuple[Step, ...] = ()
    rmw: tuple[tuple[int, int], ...] = ()
    registers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _State:
    pc: int
    registers: dict[str, tuple[int, frozenset[int]]]
    control: frozenset[int]
    steps: tuple[Step, ...]
    rmw: tuple[tuple[int, int], ...]
    visits: tuple[int, ...]


def traces(test: Test, thread: int, domain: dict[str, set[int]]) -> Iterator[Trace]:
    """All runs of the thread that end within the bound on loops."""
    program = test.threads[thread]
    labels = {i.operands[0]: pc for pc, i in enumerate(program) if i.opcode == ("label",)}
    start = {name: (value, frozenset[int]()) for name, value in test.registers[thread].items()}
    stack = [_State(0, start, frozenset(), (), (), (0,) * (len(program) + 1))]
    while stack:
        state = stack.pop()
        if state.pc >= len(program):
            final = tuple(sorted((name, value) for name, (value, _) in state.registers.items()))
            yield Trace(state.steps, state.rmw, final)
            continue
        visits = list(state.visits)
        visits[state.pc] += 1
        if visits[state.pc] <= VISITS:
            stack.extend(_step(test, thread, replace(state, visits=tuple(visits)), labels, domain))


def _step(
    test: Test, thread: int, state: _State, labels: dict[str, int], domain: dict[str, set[int]]
) -> list[_State]:
    instruction = test.threads[thread][state.pc]
    head, operands = instruction.opcode[0], instruction.operands
    following = replace(state, pc=state.pc + 1)
    if head == "label":
        return [following]
    if head == "goto":
        return [replace(state, pc=labels[operands[0]])]
    if head in COMPARE:
        (left, one), (right, two) = _value(state, operands[0]), _value(state, operands[1])
        taken = COMPARE[head](left, right)
        target = labels[operands[2]] if taken else state.pc + 1
        return [replace(state, pc=target, control=state.control | one | two)]
    if head in ARITHMETIC and len(instruction.opcode) == 1:
        (left, one), (right, two) = _value(state, operands[1]), _value(state, operands[2])
        return [_assign(following, operands[0], ARITHMETIC[head](left, right), one | two)]
    if head == "ld" and len(instruction.opcode) == 1:
        return [_assign(following, operands[0], *_value(state, operands[1]))]
    if head in LOADS:
        return _load(test, thread, following, instruction, domain)
    if head in STORES:
        value, depends = _value(state, operands[1])
        event = _access(test, thread, instruction.opcode, operands[0], Kind.WRITE, value, STORES[head])
        return [_append(following, event, depends)]
    if head in ATOMICS:
        return _atomic(test, thread, following, instruction, domain)
    if head == "fence":
        return [_append(following, _fence(test, thread, instruction.opcode), frozenset())]
    if head == "bar":
        return [_barrier(test, thread, following, instruction, state.pc)]
    raise LitmusError(f"instruction {'.'.join(instruction.opcode)}")


def _value(state: _State, text: str) -> tuple[int, frozenset[int]]:
    if text.lstrip("-").isdigit():
        return int(text), frozenset()
    return state.registers.get(text, (0, frozenset()))


def _assign(state: _State, register: str, value: int, depends: frozenset[int]) -> _State:
    return replace(state, registers={**state.registers, register: (value, depends)})


def _append(state: _State, event: Event, depends: frozenset[int], barrier: Barrier | None = None) -> _State:
    return replace(state, steps=(*state.steps, Step(event, depends | state.control, barrier)))


def address_of(test: Test, name: str) -> Address:
    """The address that a name stands for (an undeclared name is a location of its own)."""
    return test.addresses.get(name, Address(name, name))


def _access(
    test: Test, thread: int, opcode: tuple[str, ...], name: str, kind: Kind, value: int, proxy: str
) -> Event:
    where = address_of(test, name)
    order = opcode[1]
    strong = order != "weak"
    return Event(
        kind,
        thread,
        test.places[thread],
        where.location,
        where.address,
        proxy,
        strong,
        acquire=kind is Kind.READ and order in ("acquire", "acq_rel"),
        release=kind is Kind.WRITE and order in ("release", "acq_rel"),
        scope=SCOPES[opcode[2]] if strong else Scope.SYS,
        value=value,
    )


def _load(
    test: Test, thread: int, state: _State, instruction: Instruction, domain: dict[str, set[int]]
) -> list[_State]:
    register, name = instruction.operands
    proxy = LOADS[instruction.opcode[0]]
    results = []
    for value in domain[address_of(test, name).location]:
        event = _access(test, thread, instruction.opcode, name, Kind.READ, value, proxy)
        after = _append(state, event, frozenset())
        results.append(_assign(after, register, value, frozenset({len(after.steps) - 1})))
    return results


def _atomic(
    test: Test, thread: int, state: _State, instruction: Instruction, domain: dict[str, set[int]]
) -> list[_State]:
    opcode, operands = instruction.opcode, list(instruction.operands)
    register = operands.pop(0) if opcode[0] in ("atom", "suatom") else None
    name, sources = operands[0], [_value(state, text) for text in operands[1:]]
    proxy, operation = ATOMICS[opcode[0]], opcode[3]
    results = []
    for old in domain[address_of(test, name).location]:
        if operation == "cas":
            new = sources[1][0] if old == sources[0][0] else old
        else:
            new = ARITHMETIC[operation](old, sources[0][0])
        read = _access(test, thread, opcode, name, Kind.READ, old, proxy)
        after = _append(state, read, frozenset())
        index = len(after.steps) - 1
        depends = frozenset().union(*(taint for _, taint in sources))
        if operation != "exch":
            depends |= {index}
        write = _access(test, thread, opcode, name, Kind.WRITE, new, proxy)
        after = replace(_append(after, write, depends), rmw=(*state.rmw, (index, index + 1)))
        results.append(_assign(after, register, old, frozenset({index})) if register else after)
    return results


def _fence(test: Test, thread: int, opcode: tuple[str, ...]) -> Event:
    place = test.places[thread]
    if opcode[1] == "proxy":
        if opcode[2] == "alias":
            return Event(Kind.FENCE, thread, place, alias_fence=True)
        return Event(Kind.FENCE, thread, place, proxy_fence=ProxyFence(opcode[2]))
    return Event(
        Kind.FENCE,
        thread,
        place,
        strong=True,
        acquire=True,
        release=True,
        sc=opcode[1] == "sc",
        scope=SCOPES[opcode[2]],
    )


def _barrier(test: Test, thread: int, state: _State, instruction: Instruction, pc: int) -> _State:
    operands = instruction.operands
    identifier = _value(state, operands[1]) if len(operands) > 1 else None
    quorum = _value(state, operands[2])[0] if len(operands) > 2 else None
    barrier = Barrier(
        operands[0], identifier[0] if identifier else None, quorum, instruction.opcode[2] == "sync", pc
    )
    event = Event(Kind.NODE, thread, test.places[thread])
    return _append(state, event, identifier[1] if identifier else frozenset(), barrier)
