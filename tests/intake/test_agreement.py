"""The kernels that are found are those that cuobjdump finds (`tests/benchmarks/container_agreement.py`)."""

import importlib.util
from pathlib import Path

import pytest
from container_builders import CONTAINERS, CUBIN, LZ4, ZSTD, fatbin, fatbin_entry

from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass.tools import find_tool

_SCRIPT = Path(__file__).parent.parent / "benchmarks" / "container_agreement.py"
_SPECIFICATION = importlib.util.spec_from_file_location("container_agreement", _SCRIPT)
assert _SPECIFICATION is not None
assert _SPECIFICATION.loader is not None
agreement = importlib.util.module_from_spec(_SPECIFICATION)
_SPECIFICATION.loader.exec_module(agreement)


def has_cuobjdump() -> bool:
    try:
        find_tool("cuobjdump")
    except ToolError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_cuobjdump(), reason="needs cuobjdump")


@pytest.mark.parametrize("name", ["libtwo.so", "none.fatbin", "speed.fatbin", "size.fatbin"])
def test_what_nvcc_built_agrees(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert agreement.main([str(CONTAINERS / name)]) == 0
    assert "agree" in capfd.readouterr().out


def test_what_the_tests_build_is_what_cuobjdump_reads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = (0x100001, 0x100001 | LZ4, 0x100001 | ZSTD)
    (tmp_path / "k.fatbin").write_bytes(fatbin(*(fatbin_entry(CUBIN, flags=one) for one in flags)))
    assert agreement.main([str(tmp_path / "k.fatbin")]) == 0
    assert "3 cubins, 0 PTX texts, 3 kernels in cubins; agree" in capfd.readouterr().out


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    path = CONTAINERS / "size.fatbin"
    found = agreement.by_own_reading(path)
    monkeypatch.setattr(agreement, "by_own_reading", lambda path: [*found[:-1], ("ptx", "sm_100", ())])
    assert agreement.main([str(path)]) == 1
    assert "DIFFER" in capfd.readouterr().out
