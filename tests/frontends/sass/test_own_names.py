"""Code sections of one name, as a linker leaves local functions that several objects bring along."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from container_builders import CONTAINERS
from damaged_cubins import with_second_code
from sass_fixtures import needs_nvdisasm
from tools_support import ptxas

from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.sass import load_cubin, parts, size
from ptxaudit.frontends.sass.disassemble import disassembled, parse_listing, start_nvdisasm
from ptxaudit.frontends.sass.elf_writer import elf_file
from ptxaudit.frontends.sass.own_names import for_nvdisasm
from ptxaudit.frontends.sass.sections import (
    HEADER,
    OWN_NAME_MARK,
    SECTION,
    SHT_SYMTAB,
    SYMBOL,
    content_of,
    is_plain,
    read_sections,
    read_symbols,
)
from ptxaudit.frontends.sass.summary import summarise_cubin
from ptxaudit.ir.function import Module
from ptxaudit.ir.operands import Symbol

FIXTURES = Path(__file__).parent.parent.parent.parent / "fixtures"
RULES = select_rules(load_registry())
CHANGED = "l1-invalidate-in-poll-loop"
OBJECT = """\
.version 8.0
.target sm_90a
.address_size 64
.func (.reg .b64 %out) helper(.reg .b64 %in)
{{
  .reg .b64 %t;
  mad.lo.u64 %t, %in, %in, %in;
  {extra}
  mad.lo.u64 %out, %t, %in, %in;
  ret;
}}
.visible .entry kernel_{number}(.param .u64 result)
{{
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  .shared .b32 word_{number};
  ld.param.u64 %rd1, [result];
  mov.u32 %r1, %tid.x;
  st.shared.u32 [word_{number}], %r1;
  bar.sync 0;
  ld.shared.u32 %r3, [word_{number}];
  ld.global.u64 %rd2, [%rd1];
  ld.global.u64 %rd3, [%rd1+8];
  div.u64 %rd4, %rd2, %rd3;
  call (%rd4), helper, (%rd4);
  st.global.u64 [%rd1], %rd4;
  ret;
}}
"""


def linked(folder: Path, extras: Sequence[str]) -> bytes:
    """Kernels of one object each, whose local function has another instruction in each."""
    tool = ptxas()
    linker = tool and tool.with_name("nvlink")
    if linker is None or not linker.exists():
        pytest.skip("needs ptxas and nvlink")
    objects = []
    for number, extra in enumerate(extras):
        (folder / f"{number}.ptx").write_text(OBJECT.format(number=number, extra=extra))
        objects.append(f"{number}.cubin")
        run(folder, str(tool), "-c", "-arch=sm_90a", "-o", objects[-1], f"{number}.ptx")
    run(folder, str(linker), "-arch=sm_90a", *objects, "-o", "linked.cubin")
    return (folder / "linked.cubin").read_bytes()


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return linked(tmp_path_factory.mktemp("copies"), [""] * 4)


@pytest.fixture(scope="module")
def differing(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The second function is a copy of the first; the others are not, though they are of each other."""
    return linked(tmp_path_factory.mktemp("differing"), ["", "", "bar.sync 1;", "bar.sync 1;"])


def audited(data: bytes, **options: object) -> AuditRun:
    return audit((image_of("k.cubin", data),), AuditOptions(RULES, jobs=1, **options))  # type: ignore[arg-type]


def calls(module: Module) -> dict[str, set[str]]:
    return {
        function.name: {
            operand.name
            for one in function.instructions
            if one.opcode.startswith("CALL")
            for operand in one.operands
            if isinstance(operand, Symbol)
        }
        for function in module.functions
    }


def test_copies_are_read_once(copies: bytes) -> None:
    table = read_sections(copies, "k.cubin")
    named = [one for one in table if one.name.startswith(".text.helper")]
    assert [(one.name, one.is_copy) for one in named] == [
        (".text.helper", False),
        (".text.helper@2", True),
        (".text.helper@3", True),
        (".text.helper@4", True),
    ]
    assert is_plain(copies, "k.cubin")
    division = "__cuda_sm20_div_u64"
    assert sorted(summarise_cubin(copies, "k.cubin").functions) == [division, "helper"]
    found = calls(load_cubin(copies, "k.cubin"))
    assert found == {
        division: set(),
        "helper": set(),
        **{f"kernel_{number}": {division, "helper"} for number in range(4)},
    }


def test_code_that_only_shares_a_name_is_read_apart(differing: bytes) -> None:
    module = load_cubin(differing, "k.cubin")
    division = "__cuda_sm20_div_u64"
    assert calls(module) == {
        division: set(),
        "helper": set(),
        "helper@3": set(),
        "helper@4": set(),
        "kernel_0": {division, "helper"},
        "kernel_1": {division, "helper"},
        "kernel_2": {division, "helper@3"},
        "kernel_3": {division, "helper@4"},
    }
    barriers = {
        function.name
        for function in module.functions
        if any("BAR" in one.opcode for one in function.instructions)
    }
    assert barriers == {"helper@3", "helper@4", *(f"kernel_{number}" for number in range(4))}
    entries = {function.name for function in module.functions if function.is_entry}
    assert entries == {f"kernel_{number}" for number in range(4)}


@pytest.mark.parametrize("kind", ["copies", "differing"])
def test_parts_give_what_the_whole_gives(
    kind: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    data: bytes = request.getfixturevalue(kind)
    whole = audited(data)
    assert not whole.internal_errors
    some = audited(data, kernel=re.compile("^kernel_3$")).report
    scanned = audit(
        (image_of("k.cubin", data),), AuditOptions(select_rules(load_registry(), (CHANGED,)), jobs=1)
    )
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    for most in (1, 1 << 11, 1 << 20):
        monkeypatch.setattr(size, "LARGEST_PART", most)
        assert len(list(parts.load_parts(data, "k.cubin"))) == 1 or most < 1 << 20
        assert audited(data) == whole
        asked = audited(data, kernel=re.compile("^kernel_3$")).report
        # The listing has the parts that were asked for.
        assert replace(asked, listings=some.listings) == some
    again = audit(
        (image_of("k.cubin", data),), AuditOptions(select_rules(load_registry(), (CHANGED,)), jobs=1)
    )
    assert again == scanned


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "cubin").glob("*.cubin")), ids=lambda path: path.name.removesuffix(".cubin")
)
def test_of_a_large_cubin_nvdisasm_gets_what_it_is_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = path.read_bytes()
    if not size.is_linked(data):
        pytest.skip("is yet to be linked")
    with start_nvdisasm(data, path.name) as run:
        whole = {one.name: one for one in parse_listing(run.output(), path.name)}
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    held = {one.section: one for one in read_symbols(data, read_sections(data, path.name), path.name)}
    for symbol in held.values():
        (alone,) = disassembled(data, path.name, [symbol.index])
        assert alone == whole[alone.name]


def test_other_code_is_left_out(differing: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    table = read_sections(differing, "k.cubin")
    symbols = {one.name: one for one in read_symbols(differing, table, "k.cubin")}
    chosen = symbols["helper@3"]
    table = read_sections(for_nvdisasm(differing, "k.cubin", [chosen.index]), "k.cubin")
    held = [one for one in table if one.name.startswith(".text.") and one.size]
    assert [one.name for one in held] == [f".text.helper{OWN_NAME_MARK.decode()}3_"]
    (section,) = disassembled(differing, "k.cubin", [chosen.index])
    assert section.name == ".text.helper@3"


@pytest.mark.parametrize("name", [OWN_NAME_MARK, b'","start":0', b"a\\b", b"a\nb"])
def test_names_after_which_a_listing_could_not_be_trusted(copies: bytes, name: bytes) -> None:
    """nvdisasm prints names as they are: one that closes its string could pass for a function."""
    known = b"__cuda_sm20_div_u64\0"
    data = copies.replace(known, name.ljust(len(known) - 1, b"x") + b"\0")
    with pytest.raises(BinaryFault, match="in a name, expected names of identifiers"):
        load_cubin(data, "k.cubin")


def test_a_name_that_another_one_would_get(copies: bytes) -> None:
    data = copies.replace(b"__cuda_sm20_div_u64\0", b"helper@2\0".ljust(20, b"\0"))
    with pytest.raises(BinaryFault, match=r"'\.text\.helper' and '\.text\.helper@2'"):
        read_sections(data, "k.cubin")


def test_names_of_symbols_that_share_their_end(copies: bytes) -> None:
    """Each is written again with a name of its own: a small file would take gigabytes."""
    header = HEADER.unpack_from(copies)
    sections = read_sections(copies, "k.cubin")
    rows = [list(SECTION.unpack_from(copies, header[6] + n * SECTION.size)) for n in range(len(sections))]
    contents: list[bytes] = [content_of(copies, one) for one in sections]
    second = next(n for n, one in enumerate(sections) if one.ordinal == 2 and one.name.startswith(".text."))
    table = next(n for n, one in enumerate(sections) if one.kind == SHT_SYMTAB)
    start = len(contents[sections[table].link])
    contents[sections[table].link] += b"x" * 50_000 + b"\0"
    contents[table] += b"".join(SYMBOL.pack(start + n, 0, 0, second, 0, 0) for n in range(20_000))
    data = elf_file(header, zip(rows, contents, strict=True))
    with pytest.raises(BinaryFault, match="more names than it has bytes for"):
        for_nvdisasm(data, "k.cubin")


@needs_nvdisasm
def test_code_that_the_disassembler_passes_over_is_not_lost() -> None:
    """A function without a name is in no listing."""
    data = (CONTAINERS / "two_kernels.sm_90a.cubin").read_bytes()
    kernel = next(one.name for one in load_cubin(data, "k.cubin").functions).encode()
    broken = data.replace(kernel, bytes(len(kernel)))
    module = load_cubin(broken, "k.cubin")
    assert len(module.functions) == 1
    assert len(module.unread) == 1
    assert "expected 0x" in module.unread[0].reason


def test_a_cubin_without_repeated_names_is_left_as_it_is() -> None:
    data = (FIXTURES / "cubin" / "dispatch.sm_90a.cubin").read_bytes()
    assert for_nvdisasm(data, "k.cubin") is data
    odd = with_second_code(data)
    names = [one.name for one in read_sections(odd, "k.cubin") if one.name.endswith("@2")]
    assert len(names) == 1
    assert not is_plain(odd, "k.cubin")
