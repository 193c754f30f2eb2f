"""The table of what a root may do has every event that real code is lowered to."""

from pathlib import Path

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.lower import parse_instruction
from ptxaudit.ir.events import UnknownEffect
from ptxaudit.ir.traits import Trait, traits_of
from ptxaudit.isa.sass.events import _LOWERINGS, events, function_events
from ptxaudit.isa.sass.traits import TRAITS, roots_with

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
TABLE = Path(__file__).with_name("sass_events.txt")
CUBINS = sorted(path for path in FIXTURES.rglob("*.cubin") if "hostile" not in path.parts)


def test_every_root_that_has_events_is_in_the_table() -> None:
    assert TRAITS.keys() == _LOWERINGS.keys()


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_events_are_those_that_the_table_names(path: Path) -> None:
    module = load_cubin(path.read_bytes(), str(path))
    missing: set[tuple[str, Trait]] = set()
    for function in module.functions:
        for instruction, several in zip(function.instructions, function_events(function), strict=True):
            root = instruction.parts[0]
            for event in several:
                if not isinstance(event, UnknownEffect):
                    missing |= {(root, one) for one in traits_of(event) if one not in TRAITS[root]}
    assert missing == set()


def test_spellings_have_what_the_table_names() -> None:
    lines = TABLE.read_text().splitlines()
    for text in (one for one in lines if one and not one.startswith((" ", "#"))):
        instruction = parse_instruction(text)
        for event in events(instruction, Architecture(90, "a")):
            if not isinstance(event, UnknownEffect):
                assert set(traits_of(event)) <= set(TRAITS[instruction.parts[0]]), text


def test_roots_are_found_by_what_they_may_do() -> None:
    some = next(iter(TRAITS["CCTL"]))
    assert "CCTL" in roots_with([some]) and "LDG" not in roots_with([some])
