"""``ptxaudit cost`` and ``dump cost``: what they print, and that the JSON follows the schema."""

import json
from pathlib import Path

import pytest
from audit_support import run_cli

from ptxaudit.report.json_report import load_schema
from ptxaudit.schema import schema_fault

FIXTURES = Path(__file__).parent.parent / "fixtures"
MAILBOX = FIXTURES / "performance" / "l1-invalidate-in-poll-loop" / "mailbox_acquire_cluster_loop.ptx"
DSL = MAILBOX.with_name("dsl_mailbox_loop.ptx")
RING = FIXTURES / "kernels" / "gemm_ring" / "gemm_ring.cubin"


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_cli(monkeypatch, *arguments) == 0
    return capsys.readouterr().out


def test_a_loop_is_printed_with_its_places(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(monkeypatch, capsys, "cost", str(MAILBOX), "--no-assemble", "--no-roles", "--no-store")
    assert "measured on an NVIDIA H200), PTX, 128 threads a CTA" in text
    loop = next(line for line in text.splitlines() if "innermost loop at line 56" in line)
    assert "an iteration; " in loop
    assert "invalidates" in loop
    assert "line 81: mbarrier.wait.acquire.cluster" in text
    assert "once per successful wait; 1 load is fetched again: the address stays within a line" in text
    assert "line 88: mbarrier.arrive.release.cluster" in text
    assert text.splitlines()[-1] == "1 function with synchronisation"


def test_without_measurements_there_are_ranks_and_no_cycles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(monkeypatch, capsys, "cost", str(DSL), "--no-assemble", "--no-roles", "--no-store")
    assert "sm_100a (not measured)" in text
    assert "rank 1" in text
    assert "an iteration" not in text.split("assumes:")[0]


def test_the_json_follows_the_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "costs.json"
    printed(
        monkeypatch, capsys, "cost", str(RING), str(DSL), "--no-assemble", "--no-store", "--json", str(file)
    )
    document = json.loads(file.read_text())
    assert schema_fault(load_schema(), document) is None
    ring, other = (one["budget"] for one in document["functions"])
    assert ring["measured"] == "sm_90"
    assert "measured" not in other
    products = [place for place in ring["places"] if place["operation"] == "wgmma.wait.0"]
    assert all(place["critical"] and place["roles"] for place in products)
    assert any(loop.get("roles") == ["warp 0"] and not loop["critical"] for loop in ring["loops"])
    assert document["findings"] == []


def test_the_dump_has_no_roles(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(monkeypatch, capsys, "dump", "cost", str(RING))
    assert "wgmma.wait" in text
    assert "warps" not in text.split("assumes:")[0]
    data = json.loads(printed(monkeypatch, capsys, "dump", "cost", str(RING), "--format", "json"))
    assert data["functions"][0]["name"] == "gemm_ring"
    assert data["functions"][0]["places"]


def test_who_pays_is_named_and_the_words_are_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(monkeypatch, capsys, "cost", str(RING), "--no-store")
    assert "every iteration of an outer loop; by warps 4, 8" in text, "not all that execute the loop"
    outside = next(line for line in text.splitlines() if "outside loops" in line)
    assert "(warp" in outside
    notes = [line for line in text.splitlines() if line.startswith("note: ")]
    for word in ("range", "share", "besides", "likely critical"):
        assert any(word in note for note in notes), word
