"""Which values are the same in every pass through a loop."""

from pathlib import Path

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions, Region
from ptxaudit.engine.image import image_of
from ptxaudit.engine.inputs import load_image
from ptxaudit.ir.operands import Register

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
PATHS = sorted(
    path
    for folder in ("kernels", "performance/l1-invalidate-in-poll-loop")
    for path in (FIXTURES / folder).rglob("*.*")
    if path.suffix in (".ptx", ".cubin")
)


def derives_from_itself(
    definitions: Definitions, registers: tuple[Register, ...], index: int, region: Region
) -> bool:
    """What invariance means, by the slices of all definitions."""
    sources = definitions.slice(((one.name, index) for one in registers), region)
    return any(
        source
        in definitions.slice(((r.name, source) for r in definitions.instructions[source].reads), region)
        for source in sources
    )


@pytest.mark.parametrize("path", PATHS[::3], ids=lambda path: path.name)
def test_a_value_is_invariant_when_nothing_behind_it_derives_from_itself(path: Path) -> None:
    module = load_image(image_of(path.name, path.read_bytes()))
    for function in module.functions:
        analysis = FunctionAnalysis(function, module)
        definitions = Definitions(analysis.graph, analysis.events)
        for loop in analysis.graph.loops[:4]:
            blocks = [analysis.graph.blocks[block] for block in loop.blocks]
            for block in blocks[:4]:
                for index in range(block.start, block.end)[:12]:
                    registers = function.instructions[index].reads
                    expected = not derives_from_itself(definitions, registers, index, loop.blocks)
                    assert definitions.is_invariant(registers, index, loop.blocks) == expected, index
