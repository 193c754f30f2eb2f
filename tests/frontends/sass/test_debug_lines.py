"""Line tables of cubins, against what nvdisasm prints of them."""

import re
import subprocess
from bisect import bisect_right
from pathlib import Path

import pytest
from sass_fixtures import needs_nvdisasm
from tools_support import ptxas

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.sass.elf import LineRow, read_debug_lines
from ptxaudit.frontends.sass.sections import read_sections
from ptxaudit.frontends.sass.tools import find_tool

PTX = """\
// a comment line keeps its number
.version 8.6
.target sm_90a
.address_size 64
.visible .entry first(.param .u64 p, .param .u32 n)
{
 .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
 .shared .align 8 .b8 box[8];
 .loc 1 10 3
 ld.param.u64 %rd1, [p];
 mov.u32 %r1, box;
 .loc 1 11 3
 mbarrier.init.shared.b64 [%r1], 1;
 .loc 1 12 5
 .loc 2 77 1, function_name $L__name, inlined_at 1 12 5
LOOP:
 mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;
 @!%p1 bra LOOP;
 .loc 1 13 3
 st.global.u32 [%rd1], %r1;
 ret;
}
.visible .entry second(.param .u64 p)
{
 .reg .b64 %rd<4>;
 .loc 1 30 1
 ld.param.u64 %rd1, [p];
 barrier.cluster.arrive;
 barrier.cluster.wait;
 .loc 1 31 1
 st.global.u32 [%rd1], 0;
 ret;
}
.file 1 "/home/me/kernel.cu"
.file 2 "wait.h"
.section .debug_str
{
$L__name:
.b8 119,97,105,116,0
}
"""


@pytest.fixture(scope="module", params=["sm_90a", "sm_100a"])
def cubin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool = ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    folder = tmp_path_factory.mktemp("lines")
    (folder / "k.ptx").write_text(PTX.replace("sm_90a", request.param))
    command = [str(tool), f"-arch={request.param}", "-lineinfo", "-o", "k.cubin", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "k.cubin"


def printed(cubin: Path, flag: str) -> dict[tuple[str, int], tuple[str, int] | None]:
    """File and line of each instruction by section and offset, as nvdisasm prints them."""
    command = [str(find_tool("nvdisasm")), flag, "-c", str(cubin)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, int], tuple[str, int] | None] = {}
    section, place = "", None
    for line in listing.splitlines():
        if match := re.match(r'\s*//## File "(.*?)", line (\d+)', line):
            place = (match[1], int(match[2]))
        elif match := re.match(r"\s*\.section\s+(\.text\.[^,]+),", line):
            section, place = match[1], None
        elif match := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+\S", line):
            found[section, int(match[1], 16)] = place
    return found


def row_at(rows: tuple[LineRow, ...], offset: int) -> LineRow | None:
    index = bisect_right([row.offset for row in rows], offset) - 1
    return rows[index] if index >= 0 else None


@needs_nvdisasm
@pytest.mark.parametrize("flag", ["-gp", "-g"])
def test_lines_are_those_that_nvdisasm_prints(cubin: Path, flag: str) -> None:
    lines = read_debug_lines(cubin.read_bytes(), "k.cubin")
    tables = lines.ptx if flag == "-gp" else lines.source
    expected = printed(cubin, flag)
    assert {section for section, _ in expected} == {".text.first", ".text.second"}
    for (section, offset), place in expected.items():
        row = row_at(tables[section], offset)
        read = None if row is None else (row.file or ".nv_debug_ptx_txt", row.line)
        assert read == place, (section, hex(offset))


def test_the_ptx_comes_with_its_lines_where_they_were(cubin: Path) -> None:
    text = read_debug_lines(cubin.read_bytes(), "k.cubin").ptx_text
    assert text is not None
    kept, given = text.splitlines(), PTX.splitlines()
    assert kept[0] == "" and given[0].startswith("//")
    wait = given.index(next(line for line in given if "try_wait" in line))
    assert kept[wait].strip() == given[wait].strip()


def test_a_cubin_without_line_information_has_none() -> None:
    lines = read_debug_lines(b"\x7fELF and nothing else", "k.cubin")
    assert (lines.ptx, lines.source, lines.ptx_text) == ({}, {}, None)


def test_malformed_line_information_is_one_error(cubin: Path) -> None:
    data = cubin.read_bytes()
    header = data.index(b"\x01\x01\xfb\x0e")
    broken = data[: header - 10] + b"\xff" * 4 + data[header - 6 :]
    with pytest.raises(BinaryFault, match=r"k\.cubin: found malformed line information"):
        read_debug_lines(broken, "k.cubin")


@pytest.mark.parametrize("version", [5, 63, 0xFFFF])
def test_a_line_table_of_a_version_that_no_compiler_writes_is_not_read(cubin: Path, version: int) -> None:
    """Of version 5 and later the library reads as many entries as are stated, though they take no bytes."""
    content = bytearray(cubin.read_bytes())
    section = next(one for one in read_sections(bytes(content), "c") if "debug_line" in one.name)
    content[section.offset + 4 : section.offset + 6] = version.to_bytes(2, "little")
    with pytest.raises(BinaryFault, match=f"a line table of version {version}"):
        read_debug_lines(bytes(content), "kernel.cubin")
