"""Values of literals and constant expressions (PTX ISA 4.5): 64-bit integers, IEEE floats."""

import struct
from collections.abc import Callable

from ptxaudit.arch import WARP_SIZE
from ptxaudit.frontends.ptx.declarations import parse_integer
from ptxaudit.frontends.ptx.syntax import Binary, Cast, Conditional, Literal, Name, Operand, Unary

Number = int | float


def literal_value(text: str) -> Number:
    """The value of a literal as spelled; ``0f`` and ``0d`` are the bits of a float."""
    if text[:2] in ("0f", "0F") and len(text) == 10:
        (single,) = struct.unpack(">f", bytes.fromhex(text[2:]))
        return float(single)
    if text[:2] in ("0d", "0D") and len(text) == 18:
        (double,) = struct.unpack(">d", bytes.fromhex(text[2:]))
        return float(double)
    if text[:2] not in ("0x", "0X") and any(mark in text for mark in ".eE"):
        return float(text)
    return parse_integer(text)


def constant_value(expression: Operand) -> Number | None:
    """The value of a constant expression; ``None`` where it has a name or divides by zero."""
    match expression:
        case Literal(text):
            return literal_value(text)
        case Name("WARP_SZ"):
            return WARP_SIZE
        case Unary(operator, operand):
            return _unary(operator, constant_value(operand))
        case Cast(kind, operand):
            return _cast(kind, constant_value(operand))
        case Conditional(condition, first, second):
            chosen = constant_value(condition)
            return None if chosen is None else constant_value(first if chosen else second)
        case Binary(operator, left, right):
            return _binary(operator, constant_value(left), constant_value(right))
        case _:
            return None


def _unary(operator: str, value: Number | None) -> Number | None:
    if value is None:
        return None
    if operator == "-":
        return -value
    if operator == "!":
        return int(not value)
    if operator == "~":
        return ~value if isinstance(value, int) else None
    return value


def _cast(kind: str, value: Number | None) -> Number | None:
    if value is None:
        return None
    try:
        whole = int(value)
    except (OverflowError, ValueError):
        return None
    return whole % (1 << 64) if kind.startswith("u") else _wrap(whole)


def _wrap(value: int) -> int:
    """A 64-bit result: kept as it is while it fits signed or unsigned."""
    if -(1 << 63) <= value < (1 << 64):
        return value
    return value % (1 << 64)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << (b % 64),
    ">>": lambda a, b: a >> (b % 64),
}
_COMPARISON: dict[str, Callable[[Number, Number], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}


def _binary(operator: str, left: Number | None, right: Number | None) -> Number | None:
    if left is None or right is None:
        return None
    if operator in _COMPARISON:
        return int(_COMPARISON[operator](left, right))
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if operator in ("/", "%"):
        return _divide(operator, left, right)
    return _wrap(_ARITHMETIC[operator](left, right))


def _divide(operator: str, left: int, right: int) -> int | None:
    """C division: towards zero, the remainder with the dividend's sign."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return quotient if operator == "/" else left - quotient * right
