"""Helpers for the tests of evaluation: run one instruction, compare it with a reference in every lane."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Operand, Register, Vector
from ptxaudit.ir.values import LANES, Domain, Truth, Value
from ptxaudit.isa.evaluation import LaneState
from ptxaudit.isa.ptx.evaluate import compile_evaluation
from ptxaudit.source import Location, LocationKind


def examples(*arguments: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]) -> Callable[[Any], Any]:
    """``given`` with few examples and no time limit, since each compares 32 lanes several times."""

    def decorate(test: Any) -> Any:
        return settings(max_examples=20, deadline=None)(given(*arguments, **named)(test))

    return decorate


ALL = LaneState(np.ones(LANES, dtype=np.bool_))
BOUNDARY = (0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF)
WORD = 0xFFFFFFFF


def numbers(bits: int) -> st.SearchStrategy[int]:
    full = (1 << bits) - 1
    edges = [n & full for n in (*BOUNDARY, full, full - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1)]
    return st.one_of(st.sampled_from(edges), st.integers(0, full))


def instruction(opcode: str, *operands: Operand) -> Instruction:
    return Instruction(
        0, opcode, None, operands, (), (), Location(LocationKind.PTX, "test.ptx", 1, 1), opcode
    )


def r(number: int) -> Register:
    return Register(f"%r{number}")


def evaluate(
    opcode: str,
    *values: Value | Truth,
    outputs: int = 1,
    domain: Domain | None = None,
    state: LaneState = ALL,
) -> list[Value | Truth]:
    """The results of an instruction with one register per value."""
    target: Operand = r(0) if outputs == 1 else Vector(tuple(r(100 + index) for index in range(outputs)))
    sources = tuple(r(index + 1) for index in range(len(values)))
    found = compile_evaluation(instruction(opcode, target, *sources))
    assert found is not None
    assert found.sources == sources
    assert len(found.destinations) == outputs
    results = list(found.compute(domain or Domain(), state, values))
    assert len(results) == outputs
    return results


def spread(result: Value | Truth) -> list[int]:
    assert isinstance(result, int | np.ndarray), result
    return [int(n) for n in np.broadcast_to(np.asarray(result, dtype=object), (LANES,))]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def check_everywhere(opcode: str, reference: Callable[..., int], rows: list[tuple[int, ...]]) -> None:
    """The reference holds for one number in all lanes, for a number per lane, and for a mixture."""
    wanted = [reference(*row) for row in rows]
    assert evaluate(opcode, *rows[0]) == [wanted[0]]
    columns = [
        np.array([rows[lane % len(rows)][place] for lane in range(LANES)], dtype=np.uint64)
        for place in range(len(rows[0]))
    ]
    assert spread(evaluate(opcode, *columns)[0]) == [wanted[lane % len(rows)] for lane in range(LANES)]
    mixed = (rows[0][0], *columns[1:])
    expected = [reference(rows[0][0], *rows[lane % len(rows)][1:]) for lane in range(LANES)]
    assert spread(evaluate(opcode, *mixed)[0]) == expected
