"""Where time goes: stages nest and add up, and reports have them only where they were asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from audit_support import KERNEL, run_cli
from jsonschema import Draft202012Validator

from ptxaudit.report.json_report import load_schema
from ptxaudit.stopwatch import Stage, Stopwatch, summed

CUBIN = Path(__file__).parent.parent / "fixtures" / "cubin" / "mailbox.sm_90a.cubin"


def work(seconds: float) -> None:
    end = thread_time() + seconds
    while thread_time() < end:
        pass


def report_of(path: Path) -> Any:
    document = json.loads(path.read_text())
    Draft202012Validator(load_schema()).validate(document)
    return document


def test_time_counts_for_the_innermost_stage_and_adds_up() -> None:
    watch = Stopwatch()
    watch.taken()
    start = thread_time()
    with watch.stage(Stage.RULES):
        work(0.02)
        with watch.stage(Stage.EXECUTION):
            work(0.05)
        work(0.02)
    taken = watch.taken()
    assert 0.04 <= taken[Stage.RULES] < 0.05 <= taken[Stage.EXECUTION]
    assert sum(taken.values()) == pytest.approx(thread_time() - start, abs=0.005)
    assert sum(watch.taken().values()) < 0.005


def test_a_tool_counts_when_it_is_waited_for() -> None:
    watch = Stopwatch()
    program = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass"
    with watch.waiting(Stage.ASSEMBLER):
        subprocess.run([sys.executable, "-c", program], check=True)
    assert watch.taken()[Stage.ASSEMBLER] >= 0.1


def test_sums_are_in_the_order_of_the_stages() -> None:
    total = summed([{Stage.RULES: 1.0, Stage.START: 0.5}, {Stage.RULES: 2.0}])
    assert list(total.items()) == [(Stage.START, 0.5), (Stage.RULES, 3.0)]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_reports_have_timings_only_where_they_were_asked_for(
    jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(KERNEL)
    Path("kernel2.cubin").write_bytes(CUBIN.read_bytes())
    arguments = ("audit", "kernel.ptx", "kernel2.cubin", "--fail-on", "never", "--jobs", jobs)
    assert run_cli(monkeypatch, *arguments, "--json", "plain.json") == 0
    assert "processor time" not in capfd.readouterr().err
    assert run_cli(monkeypatch, *arguments, "--json", "timed.json", "--timings") == 0
    said = capfd.readouterr().err
    plain, timed = report_of(Path("plain.json")), report_of(Path("timed.json"))
    total = timed.pop("timings")
    ptx, cubin = (one.pop("timings") for one in timed["inputs"])
    assert plain == timed
    assert "s of processor time" in said and "kernel2.cubin: disassembler" in said
    assert cubin["disassembler"] > 0.01 and ptx["assembler"] > 0
    assert total["disassembler"] == pytest.approx(ptx["disassembler"] + cubin["disassembler"], abs=0.001)
    assert total["start"] > 0 and "start" not in cubin
    assert sum(total.values()) <= sum(os.times()[:4])
