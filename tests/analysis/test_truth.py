"""What values are worth under assumptions: told in time that grows with the code."""

from time import process_time

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.analysis.truth import Supposition
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.source import SourceText

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n"
REGISTERS = "  .reg .pred %p<99>;\n  .reg .b32 %r<99>;\n"


def supposition(body: str, assumed: dict[tuple[int, str], int]) -> Supposition:
    module = load_ptx(SourceText("k.ptx", f"{HEAD}{REGISTERS}{body}  ret;\n}}\n"))
    analysis = FunctionAnalysis(module.functions[0], module)
    definitions = poll_loops(analysis).definitions
    return Supposition(definitions, definitions.everywhere, assumed)


def test_values_that_rest_on_one_many_times_are_told_once() -> None:
    lines = "".join(f"  and.pred %p{n + 1}, %p{n}, %p{n};\n" for n in range(1, 60))
    told = supposition(f"  setp.eq.u32 %p1, %r1, 0;\n{lines}", {(0, "%p1"): 1})
    start = process_time()
    assert told.register("%p60", 60) == 1
    assert process_time() - start < 5


def test_arithmetic_is_not_followed() -> None:
    lines = "".join(f"  add.u32 %r{n + 1}, %r{n}, %r{n};\n" for n in range(1, 60))
    told = supposition(f"  mov.u32 %r1, 1;\n{lines}", {})
    start = process_time()
    assert told.register("%r60", 60) is None
    assert process_time() - start < 5


def test_a_value_that_rests_on_itself_is_told_alone() -> None:
    body = """\
  mov.u32 %r1, 1;
$loop:
  mov.u32 %r2, %r1;
  mov.u32 %r1, %r2;
  setp.eq.u32 %p1, %r1, 7;
  @%p1 bra $loop;
"""
    told = supposition(body, {})
    # The same whichever is asked for first.
    assert told.register("%r1", 3) == supposition(body, {}).register("%r1", 3)
    assert told.register("%r2", 2) == supposition(body, {}).register("%r2", 2)
