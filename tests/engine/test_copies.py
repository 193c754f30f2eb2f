"""Findings of unrolled copies: one, with the fingerprint of the first."""

from ptxaudit.engine.copies import without_copies
from ptxaudit.rules.model import Category, CodePlace, Confidence, Finding, Severity
from ptxaudit.source import Location, LocationKind

PTX = CodePlace("related", Location(LocationKind.PTX, "k!ptx", 149, 1), "cp.async [%r1], [%rd2], 16")
SOURCE = CodePlace("related", Location(LocationKind.SOURCE, "k.py", 43), "copy(tile)")


def sass(offset: int, text: str, *twins: CodePlace, role: str = "primary") -> CodePlace:
    return CodePlace(role, Location(LocationKind.SASS, "k.cubin", 1, 1, offset), text, None, twins)


def found(
    number: int,
    primary: CodePlace,
    related: tuple[CodePlace, ...] = (),
    rule: str = "r",
    severity: Severity = Severity.ERROR,
) -> Finding:
    return Finding(
        rule,
        Category.CORRECTNESS,
        severity,
        Confidence.HIGH,
        "k",
        "k.cubin",
        "m",
        primary,
        f"print {number}",
        related,
        assumptions=(f"assumed {number % 2}",),
    )


def copies(
    *twins: CodePlace, texts: tuple[str, ...], read: str | None = "HGMMA R24, gdesc[UR{0}]"
) -> list[int]:
    """How many copies each finding stands for that is left of one per text."""
    findings = []
    for number, text in enumerate(texts):
        related = () if read is None else (sass(1000 + number, read.format(number), role="related"),)
        findings.append(found(number, sass(number * 16, text, *twins), related))
    twins_of = (kept.primary.twins for kept in left(findings))
    return [1 + sum(one.note == "another copy of it" for one in several) for several in twins_of]


def left(findings: list[Finding]) -> list[Finding]:
    return without_copies(findings)


SAME = ("LDGSTS [R3+0x6000], [R8.64]", "LDGSTS [R3+0x6000], [R20.64]", "LDGSTS [R5+0x6000], [R22.64]")
OTHER = ("LDGSTS [R3+0x6000], [R8.64]", "LDGSTS [R3+0x7000], [R8.64]")


def test_copies_of_one_ptx_instruction_are_one_finding() -> None:
    assert copies(PTX, SOURCE, texts=SAME) == [3]
    assert copies(PTX, SOURCE, texts=OTHER) == [2]


def test_copies_on_one_line_of_the_source_are_the_same_instructions() -> None:
    assert copies(SOURCE, texts=SAME) == [3]
    assert copies(SOURCE, texts=OTHER) == [1, 1]
    assert copies(SOURCE, texts=("CCTL.IVALL", "CCTL.IVALL"), read=None) == [2]


def test_without_lines_only_pairs_are_taken_for_copies() -> None:
    assert copies(texts=SAME) == [3]
    assert copies(texts=("CCTL.IVALL", "CCTL.IVALL"), read=None) == [1, 1]


def test_the_first_stands_for_all_and_shows_where_they_are() -> None:
    one, two = found(0, sass(16, SAME[0], PTX, SOURCE)), found(1, sass(32, SAME[1], PTX, SOURCE))
    (kept,) = left([one, two])
    assert (kept.fingerprint, kept.primary.location) == (one.fingerprint, one.primary.location)
    assert [twin.location.offset for twin in kept.primary.twins] == [32, None, None]
    assert kept.assumptions == ("assumed 0", "assumed 1")
    assert "2 copies of this instruction" in kept.evidence[-1]


def test_another_rule_severity_or_instruction_and_ptx_are_no_copies() -> None:
    elsewhere = CodePlace("related", Location(LocationKind.PTX, "k!ptx", 152, 1), PTX.text)
    findings = [
        found(0, sass(16, SAME[0], PTX)),
        found(1, sass(32, SAME[0], PTX), rule="other"),
        found(2, sass(48, SAME[0], PTX), severity=Severity.NOTE),
        found(3, sass(64, SAME[0], elsewhere)),
        found(4, PTX),
        found(5, PTX),
    ]
    assert left(findings) == findings


def test_the_same_fingerprint_in_both_languages_makes_no_copies() -> None:
    findings = [found(0, PTX), found(0, sass(16, "CCTL.IVALL"))]
    assert left(findings) == findings
