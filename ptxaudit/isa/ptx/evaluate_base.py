"""An instruction's shape, by which the PTX evaluation modules choose what it computes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ptxaudit.ir.operands import Operand, Register
from ptxaudit.isa.evaluation import Compute

_TYPE = re.compile(
    r"pred|[usbf](?:8|16|32|64|128|1024)(?:x[24])?|bf16(?:x2)?|tf32|u?e[0-9]m[0-9](?:x[24])?|s2f6(?:x2)?"
)
_WIDTHS = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


def integer_width(kind: str) -> int | None:
    """Width in bits of an untyped or integer type (``b32``, ``u16``, ``s64``); ``None`` for any other."""
    return _WIDTHS.get(kind[1:]) if kind[:1] in ("b", "u", "s") else None


def is_type(part: str) -> bool:
    """Whether an opcode's component is a fundamental or packed type, rather than a modifier."""
    return _TYPE.fullmatch(part) is not None


@dataclass(frozen=True)
class Shape:
    """An instruction as its opcode and operands spell it.

    ``modifiers`` are the opcode's components after the name. ``sources`` and ``destinations`` are the
    flattened operands; ``register_types`` the declared types of registers, where the caller has them.
    """

    opcode: str
    name: str
    modifiers: tuple[str, ...]
    sources: tuple[Operand, ...]
    destinations: tuple[Register | None, ...]
    register_types: Mapping[str, str]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The type components, in order."""
        return tuple(part for part in self.modifiers if is_type(part))

    @cached_property
    def kind(self) -> str:
        """The last type component, which names the type of most instructions; empty if there is none."""
        return self.types[-1] if self.types else ""

    @cached_property
    def bits(self) -> int:
        """Width of an integer type; 0 for every other."""
        return integer_width(self.kind) or 0

    @cached_property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self.kind.startswith("s")

    def has(self, *modifiers: str) -> bool:
        """Whether any of the modifiers is spelled."""
        return any(modifier in self.modifiers for modifier in modifiers)


Compiler = Callable[[Shape], Compute | None]
