"""Parser of the PTX litmus format: a header, initial state, a table of threads, and a final condition."""

import re
from dataclasses import dataclass

from .events import Place

TOKEN = re.compile(r"\s*(/\\|\\/|==|!=|<=|>=|[()=<>~:]|-?\w+)")
COMMENT = re.compile(r"//[^\n]*|\(\*.*?\*\)", re.DOTALL)
# Which operand of an instruction names memory.
OPERAND = {
    "st": 0,
    "sust": 0,
    "red": 0,
    "sured": 0,
    "ld": 1,
    "tld": 1,
    "suld": 1,
    "cold": 1,
    "atom": 1,
    "suatom": 1,
}


class LitmusError(Exception):
    """A litmus file that this parser does not understand; the message says what was found."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: dotted opcode and operands, or a label (opcode ``label``)."""

    opcode: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """A name resolved: physical location and generic virtual address."""

    location: str
    address: str


@dataclass(frozen=True, slots=True)
class Test:
    """A litmus test; `condition` is a nested tuple, see `parse_condition`."""

    name: str
    initial: dict[str, int]
    addresses: dict[str, Address]
    registers: list[dict[str, int]]
    places: list[Place]
    threads: list[list[Instruction]]
    quantifier: str
    condition: tuple[object, ...]


def parse(text: str) -> Test:
    """Parse a litmus test; raises LitmusError on what it does not understand."""
    start, end = text.find("{"), text.find("}")
    if start < 0 or end < start:
        raise LitmusError("no initial state in braces")
    name = text[:start].split()[1] if len(text[:start].split()) > 1 else ""
    body = COMMENT.sub("", text[end + 1 :])
    match = re.search(r"(~\s*exists|exists|forall)", body)
    if match is None:
        raise LitmusError("no exists, ~exists or forall")
    rows = [row.split("|") for row in body[: match.start()].split(";") if row.strip()]
    places = [_place(cell) for cell in rows[0]]
    threads: list[list[Instruction]] = [[] for _ in places]
    for row in rows[1:]:
        for thread, cell in enumerate(row):
            if cell.strip():
                threads[thread].append(_instruction(cell.strip()))
    initial, addresses, registers = _initial(text[start + 1 : end], len(places))
    condition = parse_condition(body[match.end() :])
    return Test(
        name, initial, addresses, registers, places, threads, match.group(1).replace(" ", ""), condition
    )


def _place(cell: str) -> Place:
    match = re.fullmatch(r"\s*P?\d+\s*@\s*cta\s+(\d+)\s*,\s*gpu\s+(\d+)\s*", cell)
    if match is None:
        raise LitmusError(f"thread header {cell.strip()!r}")
    cta, gpu = int(match.group(1)), int(match.group(2))
    # The format has no clusters: each CTA is one of its own.
    return Place(gpu, cta, cta)


def _instruction(cell: str) -> Instruction:
    if match := re.fullmatch(r"(\w+)\s*:", cell):
        return Instruction(("label",), (match.group(1),))
    opcode, _, rest = cell.partition(" ")
    operands = tuple(part.strip() for part in rest.split(",")) if rest.strip() else ()
    return Instruction(tuple(opcode.split(".")), operands)


def _initial(text: str, threads: int) -> tuple[dict[str, int], dict[str, Address], list[dict[str, int]]]:
    initial: dict[str, int] = {}
    addresses: dict[str, Address] = {}
    registers: list[dict[str, int]] = [{} for _ in range(threads)]
    for item in (part.strip() for part in COMMENT.sub("", text).split(";")):
        if not item:
            continue
        if match := re.fullmatch(r"P?(\d+)\s*:\s*(\w+)\s*=\s*(-?\d+)", item):
            registers[int(match.group(1))][match.group(2)] = int(match.group(3))
        elif match := re.fullmatch(r"(\w+)\s*=\s*(-?\d+)", item):
            initial[match.group(1)] = int(match.group(2))
            addresses[match.group(1)] = Address(match.group(1), match.group(1))
        elif match := re.fullmatch(r"(\w+)\s*@\s*(\w+)\s+aliases\s+(\w+)", item):
            target = addresses.setdefault(match.group(3), Address(match.group(3), match.group(3)))
            # A generic alias is another virtual address; a proxy's name is the same one seen by the proxy.
            own = match.group(1) if match.group(2) == "generic" else target.address
            addresses[match.group(1)] = Address(target.location, own)
        else:
            raise LitmusError(f"initial state {item!r}")
    return initial, addresses, registers


def parse_condition(text: str) -> tuple[object, ...]:
    """Parse a condition to nested tuples.

    ("and", a, b), ("or", a, b), ("not", a), or (relation, left, right) with operands ("const", value),
    ("reg", thread, name), ("mem", name).
    """
    tokens = [t for t in TOKEN.findall(text) if t]
    node, rest = _either(tokens)
    if rest:
        raise LitmusError(f"condition continues with {rest[0]!r}")
    return node


def _either(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    node, rest = _both(tokens)
    while rest and rest[0] == "\\/":
        right, rest = _both(rest[1:])
        node = ("or", node, right)
    return node, rest


def _both(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    node, rest = _term(tokens)
    while rest and rest[0] == "/\\":
        right, rest = _term(rest[1:])
        node = ("and", node, right)
    return node, rest


def _term(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    if not tokens:
        raise LitmusError("condition ends early")
    if tokens[0] == "(":
        node, rest = _either(tokens[1:])
        if not rest or rest[0] != ")":
            raise LitmusError("condition lacks a closing parenthesis")
        return node, rest[1:]
    if tokens[0] == "~":
        node, rest = _term(tokens[1:])
        return ("not", node), rest
    left, rest = _operand(tokens)
    if not rest or rest[0] not in ("=", "==", "!=", "<", ">", "<=", ">="):
        raise LitmusError("condition lacks a comparison")
    right, remaining = _operand(rest[1:])
    return ("==" if rest[0] == "=" else rest[0], left, right), remaining


def _operand(tokens: list[str]) -> tuple[tuple[object, ...], list[str]]:
    if not tokens:
        raise LitmusError("condition ends early")
    if len(tokens) > 2 and tokens[1] == ":":
        return ("reg", int(tokens[0].removeprefix("P")), tokens[2]), tokens[3:]
    if re.fullmatch(r"-?\d+", tokens[0]):
        return ("const", int(tokens[0])), tokens[1:]
    return ("mem", tokens[0]), tokens[1:]


def address_of_names(test: Test) -> list[str]:
    """All names of memory that the test declares or uses."""
    names = set(test.addresses)
    for instruction in (i for thread in test.threads for i in thread):
        position = OPERAND.get(instruction.opcode[0])
        if position is not None and len(instruction.opcode) > 1:
            names.add(instruction.operands[position])
    return sorted(names)
