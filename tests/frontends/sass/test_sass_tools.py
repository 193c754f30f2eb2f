"""Finding the disassembler: missing, old, broken, failing."""

import json
from pathlib import Path

import pytest
from sass_fixtures import needs_nvdisasm

from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import tools
from ptxaudit.frontends.sass.disassemble import parse_listing
from ptxaudit.frontends.sass.tools import ToolRun, find_tool


def install(folder: Path, body: str) -> Path:
    program = folder / "nvidia" / "cu13" / "bin" / "nvdisasm"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def site_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tools, "site_directories", lambda: iter([tmp_path]))
    monkeypatch.setenv("PATH", str(tmp_path))
    find_tool.cache_clear()
    monkeypatch.setattr(tools, "find_tool", find_tool.__wrapped__)
    return tmp_path


def test_missing_tool_says_what_to_install(site_folder: Path) -> None:
    with pytest.raises(ToolError, match=r"pip install 'nvidia-cuda-nvdisasm>=13\.2'"):
        tools.find_tool("nvdisasm")


def test_old_tool_says_what_to_install(site_folder: Path) -> None:
    install(site_folder, "echo 'Cuda compilation tools, release 12.9, V12.9.1'")
    with pytest.raises(ToolError, match=r"found nvdisasm 12\.9 .*expected 13\.2 or later: pip install"):
        tools.find_tool("nvdisasm")


def test_tool_that_is_something_else(site_folder: Path) -> None:
    install(site_folder, "echo hello")
    with pytest.raises(ToolError, match="no release"):
        tools.find_tool("nvdisasm")


def test_new_tool_is_found(site_folder: Path) -> None:
    program = install(site_folder, "echo 'Cuda compilation tools, release 13.2, V13.2.51'")
    assert tools.find_tool("nvdisasm") == program


def test_failing_tool_gives_its_reason(site_folder: Path) -> None:
    install(
        site_folder,
        'case "$1" in --version) echo "release 13.2,";; *) echo "error: no such thing" >&2; exit 3;; esac',
    )
    run = ToolRun("nvdisasm", ["-json"], b"x", "k.cubin")
    with run, pytest.raises(ToolError, match=r"k\.cubin: nvdisasm failed: error: no such thing"):
        run.output()


@needs_nvdisasm
def test_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ToolRun("nvdisasm", ["-json"], b"nothing", "k.cubin"):
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "output", [b"", b"[]", b"[{}, 3]", b'[{}, [{"function-name": "k"}]]', b'[{}, [{"start": 0}]]']
)
def test_unreadable_listing(output: bytes) -> None:
    with pytest.raises(ToolError, match=r"k\.cubin: .*JSON listing"):
        parse_listing(output, "k.cubin")


def test_functions_of_one_section_are_joined() -> None:
    """nvdisasm before 13.5 lists what shares a section apart, the first with the length of all."""

    def entry(name: str, start: int, length: int, *opcodes: str) -> dict[str, object]:
        instructions = [{"opcode": opcode} for opcode in opcodes]
        return {"function-name": name, "start": start, "length": length, "sass-instructions": instructions}

    first, second = entry("k", 0, 64, "NOP", "EXIT"), entry("helper", 32, 32, "RET", "NOP")
    other = entry("next", 0, 16, "EXIT")
    sections = parse_listing(json.dumps([{}, [first, second, other]]).encode(), "k.cubin")
    found = [(one.name, [each["opcode"] for each in one.instructions]) for one in sections]
    assert found == [(".text.k", ["NOP", "EXIT", "RET", "NOP"]), (".text.next", ["EXIT"])]
