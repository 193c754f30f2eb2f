"""The ``nvdisasm -json`` driver: raw instructions of every code section of a cubin."""

import json
from dataclasses import dataclass
from typing import Any

from ptxaudit.errors import ToolError

INSTRUCTION_BYTES = 16
OPTIONS = ["-json"]


@dataclass(frozen=True, slots=True)
class Section:
    """The instructions of one code section as nvdisasm names them, ``INSTRUCTION_BYTES`` apart.

    ``instructions`` are the JSON objects: ``opcode``, ``operands``, ``predicate``, each but the first
    only where there is one.
    """

    name: str
    start: int
    instructions: list[dict[str, Any]]


def parse_listing(output: bytes, file: str) -> tuple[Section, ...]:
    """The sections in what ``nvdisasm -json`` printed; raises :class:`ToolError` when it is no such text."""
    try:
        document = json.loads(output)
        return tuple(
            Section(f".text.{entry['function-name']}", int(entry["start"]), _instructions(entry))
            for entry in document[1]
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError(
            f"{file}: found output of nvdisasm that cannot be read ({error}), expected its JSON listing"
        ) from error


def _instructions(entry: dict[str, Any]) -> list[dict[str, Any]]:
    instructions: list[dict[str, Any]] = entry["sass-instructions"]
    if any("opcode" not in instruction for instruction in instructions):
        raise ValueError("an instruction without an opcode")
    return instructions
