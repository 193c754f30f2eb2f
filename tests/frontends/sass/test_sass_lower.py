"""Functions and control flow of the assembled fixtures, also against the graphs that nvdisasm draws."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from sass_fixtures import FOLDER, fixture_path, function_named, load_fixture, needs_nvdisasm

from ptxaudit.frontends.sass.lower import parse_instruction
from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.function import Function, Language
from ptxaudit.ir.operands import LabelReference, Register

pytestmark = needs_nvdisasm


def edges(function: Function) -> dict[int, list[int]]:
    """Successors as offsets, by the offset of each block."""
    blocks = function.blocks
    return {b.start_position: [blocks[s].start_position for s in b.successors] for b in blocks}


def test_jump_table_exits_and_endless_loop() -> None:
    module = load_fixture("dispatch")
    (function,) = module.functions
    assert module.language is Language.SASS
    assert function.is_entry
    assert edges(function) == {
        0x0: [0x40],
        0x40: [0xA0, 0xD0, 0x170, 0x1E0],
        0xA0: [],
        0xD0: [0xF0],
        0xF0: [0x140, 0xF0],
        0x140: [],
        0x170: [0x190, 0x1A0],
        0x190: [],
        0x1A0: [],
        0x1E0: [0x1F0],
        0x1F0: [0x220, 0x1F0],
        0x220: [0x220],
    }
    assert [loop.header for loop in ControlFlowGraph(function).loops] == [4, 10, 11]
    assert function.blocks[-1].end_position == 0x240


def test_helpers_are_functions_of_their_own() -> None:
    module = load_fixture("tensor")
    kernel, first, second = module.functions
    assert kernel.name == "tensor"
    assert kernel.is_entry and not first.is_entry and not second.is_entry
    assert (first.blocks[0].start_position, second.blocks[0].start_position) == (0x740, 0x770)
    calls = [i for i in kernel.instructions if i.opcode.startswith("CALL")]
    assert [call.operands[0] for call in calls] != []
    callees = {getattr(call.operands[0], "name", None) for call in calls}
    assert callees == {first.name, second.name}
    assert edges(kernel)[0x6A0] == [0x6F0]


def test_padding_is_left_out() -> None:
    last = load_fixture("tensor").functions[-1]
    assert last.instructions[-1].opcode == "RET.REL.NODEC"
    assert last.blocks[-1].end_position == 0x7A0


def test_recursive_function_and_convergence_branches() -> None:
    module = load_fixture("ampere")
    callee = function_named(module, "$ampere$twice")
    assert edges(callee)[0x500] == [0x540, 0x480]
    kernel = function_named(module, "ampere")
    assert edges(kernel)[0x180] == [0x1A0, 0x1D0]  # BRA.CONV may do either
    assert edges(kernel)[0x270] == []
    assert any(0x110 in successors for successors in edges(kernel).values())


def test_indirect_call_falls_through() -> None:
    kernel = function_named(load_fixture("indirect"), "indirect")
    (call,) = [i for i in kernel.instructions if i.opcode.startswith("CALL")]
    block = kernel.block_of(call.index)
    assert block.end > call.index + 1 or block.successors == (block.id + 1,)
    assert all(0 not in block.successors for block in kernel.blocks)


def test_listing_lines_and_locations_agree() -> None:
    module = load_fixture("ampere")
    lines = module.text.splitlines()
    for function in module.functions:
        for instruction in function.instructions:
            line = lines[(instruction.location.line or 0) - 1]
            assert line == f"{instruction.location.offset:#06x}  {instruction.text}"


def test_branch_targets_are_labels() -> None:
    kernel = function_named(load_fixture("ampere"), "ampere")
    branch = next(i for i in kernel.instructions if i.text == "@!P0 BRA 0x110")
    assert branch.operands == (LabelReference(".0x110"),)
    assert branch.reads == (Register("P0"),)
    target = kernel.block_of(0x110 // 16)
    assert target.label == ".0x110"


def test_unknown_opcode_is_kept() -> None:
    instruction = parse_instruction("@P0 FROBNICATE.X R4, [R2+0x10], R6")
    assert not instruction.known
    assert instruction.writes == (Register("R4"),)
    assert instruction.reads == (Register("R2"), Register("R6"), Register("P0"))


def _comparison() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "compare_cfg.py"
    specification = importlib.util.spec_from_file_location("compare_cfg", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("stem", [path.name.split(".")[0] for path in sorted(FOLDER.glob("*.cubin"))])
def test_same_edges_as_nvdisasm(stem: str) -> None:
    graphs = _comparison().compare(fixture_path(stem))
    assert graphs is not None
    drawn, ours = graphs
    assert drawn
    assert ours == drawn
