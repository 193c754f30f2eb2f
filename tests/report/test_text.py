"""The text for a terminal: functions that are told apart, schedules that say where."""

from dataclasses import replace

from ptxaudit.report.text import abridged, render
from ptxaudit.rules.model import (
    AuditReport,
    Category,
    CodePlace,
    Confidence,
    Finding,
    FunctionReport,
    InputReport,
    Severity,
    Verdict,
    Witness,
    WitnessStep,
)
from ptxaudit.source import Location, LocationKind

REASON = {"r": "a value is not known"}


def undecided(name: str, file: str) -> FunctionReport:
    return FunctionReport(name, name, file, "sm_90", "ptx", {"r": Verdict.UNKNOWN}, REASON)


def rendered(*functions: FunctionReport, findings: tuple[Finding, ...] = ()) -> str:
    files = dict.fromkeys(function.input for function in functions)
    inputs = tuple(InputReport(file, "ptx", "a" * 64) for file in files)
    return render(AuditReport("1", inputs, functions, findings))


def test_kernels_of_one_name_are_told_apart_by_their_files() -> None:
    shown = rendered(undecided("k", "a.ptx"), undecided("k", "b.ptx"), undecided("other", "b.ptx"))
    assert "    in k (a.ptx), k (b.ptx), other\n" in shown
    assert "    in k\n" in rendered(undecided("k", "a.ptx"))


def test_long_names_keep_what_tells_them_apart() -> None:
    prefix, suffix = "void gemm<Tile<128, 128>, " + "Pipeline, " * 8, "Epilogue, 3>(Parameters)"
    shown = rendered(undecided(f"{prefix}float, {suffix}", "k"), undecided(f"{prefix}half, {suffix}", "k"))
    assert "float, Epilogue" in shown and "half, Epilogue" in shown
    one, two = (prefix + middle + "Epilogue, " * 8 + "3>" for middle in ("float, ", "half, "))
    assert abridged(one) == abridged(two)
    shown = rendered(undecided(one, "k"), undecided(two, "k"))
    assert one in shown and two in shown


def test_a_schedule_says_where_its_steps_stand() -> None:
    places = (
        Location(LocationKind.PTX, "k", 12, 1),
        Location(LocationKind.SASS, "k", 1, 1, 0x2A0),
        None,
    )
    steps = tuple(WitnessStep(f"warp {number}", "bar.sync", place) for number, place in enumerate(places))
    place = CodePlace("primary", places[0] or Location(LocationKind.PTX, "k"), "bar.sync")
    finding = Finding(
        "r",
        Category.CORRECTNESS,
        Severity.ERROR,
        Confidence.HIGH,
        "k",
        "k",
        "m",
        place,
        "f",
        witness=Witness(steps),
    )
    shown = rendered(replace(undecided("k", "k"), verdicts={"r": Verdict.FINDING}), findings=(finding,))
    assert "1. warp 0: bar.sync (line 12)\n" in shown
    assert "2. warp 1: bar.sync (+0x02a0)\n" in shown
    assert "3. warp 2: bar.sync\n" in shown
