"""SASS operands as ``nvdisasm -json`` spells them, to :mod:`ptxaudit.ir.operands`.

Parsing never fails: what is not understood becomes :class:`Opaque` with its text. Zero registers
(``RZ``, ``URZ``) stay operands, but are left out of address sums, where they add nothing. A modified
register (``|R3|``, ``~R3``, ``R2.H1``) is a :class:`Vector` of the register and the modifier's text, so
that nobody takes it for the register's value; a scaled index in an address stands in ``coordinates``.
"""

import re
from functools import lru_cache

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

_TOP_LEVEL_COMMA = re.compile(r",(?![^{]*\})")
_REGISTER = re.compile(
    r"(?P<name>U?R(?:Z|\d+)|U?P(?:T|R|\d+)|S?B\d+|gsb\d|SR[A-Z_]\w*(?:\.[XYZW](?:_\w+)?)?|SRZ|Rpc\.(?:LO|HI)|Rpc)"
    r"(?P<suffix>(?:\.\w+)*)$"
)
_INTEGER = re.compile(r"[+-]?0x[0-9a-fA-F]+$")
_FLOAT = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|INF)$")
_SYMBOL = re.compile(r"[A-Za-z_$.@][\w$.@]*$")
_CONSTANT = re.compile(r"cx?\[(?P<bank>[^\]]*)\]\[(?P<address>[^\]]*)\](?P<suffix>(?:\.\w+)*)$")
_BRACKETS = re.compile(
    r"(?P<space>desc|gdesc|idesc|tmem)?(?:\[(?P<descriptor>[^\]]*)\])??\[(?P<address>[^\]]*)\](?P<suffix>(?:\.\w+)*)$"
)
# Where an address follows another operand without a comma: the shared and the global address of a copy, and,
# in nvdisasm before 13.5, any address in shared or local memory ("R6[UR8]").
_AFTER_ADDRESS = re.compile(r"((?:^|,) ?\[[^\]]*\])(?=\[|desc\[)")
_AFTER_REGISTER = re.compile(r"((?:^|,) ?[!-]?U?[RP](?:Z|T|\d+)(?:\.\w+)*)(?=\[|desc\[)")
_TERM = re.compile(r"[+-]?[^+-]+|[+-]-[^+-]+")
_TRANSPARENT = frozenset({"reuse", "64", "U32", "F32x2", "HI_LO", "F32"})
_ZERO = frozenset({"RZ", "URZ"})


@lru_cache(maxsize=4096)
def register(name: str) -> Register:
    """The one object for a register's name."""
    return Register(name)


def label(offset: int) -> LabelReference:
    """The reference to the instruction at a byte offset of the section."""
    return LabelReference(f".{offset:#x}")


def parse_operands(text: str) -> tuple[Operand, ...]:
    """The operands of an instruction, in the order in which they are written, with a comma between them."""
    if not text:
        return ()
    pieces = _TOP_LEVEL_COMMA.split(text) if "{" in text else text.split(",")
    return tuple([parse_operand(piece) for piece in pieces])


def with_commas(text: str) -> str:
    """The text of an instruction's operands as every release of nvdisasm would print it."""
    return _AFTER_REGISTER.sub(r"\1,", _AFTER_ADDRESS.sub(r"\1,", text)) if "[" in text else text


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Operand:
    """One operand; :class:`Opaque` when its form is unknown."""
    text = text.strip()
    found = _register(text)
    if found is not None:
        return found
    if _INTEGER.match(text):
        return Immediate(int(text, 16))
    if _FLOAT.match(text):
        return Immediate(float(text))
    if text.startswith("{") and text.endswith("}"):
        return Vector(tuple(_element(part) for part in text[1:-1].split(",")))
    if text[:1] in "-!" and len(text) > 1:
        inner = parse_operand(text[1:])
        return Opaque(text) if isinstance(inner, Opaque) else Negated(inner)
    if text[:1] == "~" and len(text) > 1:
        return Vector((parse_operand(text[1:]), Opaque("~")))
    if text[:1] == "|" and text.count("|") == 2:
        inner_text, rest = text[1:].split("|", 1)
        if rest in ("", ".reuse"):
            return Vector((parse_operand(inner_text), Opaque("||")))
    if text.endswith("]") or "]." in text:
        return _bracketed(text)
    if _SYMBOL.match(text) and text not in ("QNAN", "SNAN"):
        return Symbol(text)
    return Opaque(text)


def _register(text: str) -> Operand | None:
    match = _REGISTER.match(text)
    if match is None:
        return None
    name, suffix = match.group("name"), match.group("suffix")
    if not suffix:
        return register(name)
    rest = [part for part in suffix[1:].split(".") if part not in _TRANSPARENT]
    return Vector((register(name), Opaque(".".join(rest)))) if rest else register(name)


def _element(text: str) -> Operand:
    return Immediate(int(text)) if text.strip().isdigit() else parse_operand(text)


def _bracketed(text: str) -> Operand:
    constant = _CONSTANT.match(text)
    if constant is not None:
        return _constant(text, constant.group("bank"), constant.group("address"))
    match = _BRACKETS.match(text)
    if match is None:
        return Opaque(text)
    address = _address(match.group("address"))
    space, descriptor_text = match.group("space"), match.group("descriptor")
    descriptor = None
    if descriptor_text is not None:
        found = _register(descriptor_text)
        if not isinstance(found, Register) or space != "desc":
            return Opaque(text)
        descriptor, space = found, None
    if address is None:
        return Opaque(text)
    terms, offset, others = address
    flags = tuple(Opaque(part) for part in match.group("suffix").split(".") if part)
    return Memory(terms, offset, others + flags, space, descriptor)


def _constant(text: str, bank_text: str, address_text: str) -> Operand:
    address = _address(address_text)
    if address is None:
        return Opaque(text)
    terms, offset, others = address
    if _INTEGER.match(bank_text):
        return Memory(terms, offset, others, "const", bank=int(bank_text, 16))
    bank = _register(bank_text)
    return Memory(terms, offset, others, "const", bank) if isinstance(bank, Register) else Opaque(text)


def _address(text: str) -> tuple[tuple[Register | Symbol, ...], int, tuple[Operand, ...]] | None:
    """Terms, byte offset and scaled terms of the sum inside brackets; ``None`` when it is no sum."""
    terms: list[Register | Symbol] = []
    scaled: list[Operand] = []
    offset = 0
    for piece in _TERM.findall(text):
        term = piece[1:] if piece[0] == "+" else piece
        operand = parse_operand(term)
        match operand:
            case Register(name) | Symbol(name):
                if name not in _ZERO:
                    terms.append(operand)
            case Immediate(int(value)):
                offset += value
            case Vector() | Negated():
                scaled.append(operand)
            case _:
                return None
    return tuple(terms), offset, tuple(scaled)
