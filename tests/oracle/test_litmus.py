"""The axioms on litmus tests of our own, one per axiom and pattern; the verdict is the condition's."""

import os

import pytest

from .litmus import evaluate, main
from .litmus_format import LitmusError, parse

SAME_CTA = ("cta 0,gpu 0", "cta 0,gpu 0", "cta 0,gpu 0", "cta 0,gpu 0")
OTHER_CTA = ("cta 0,gpu 0", "cta 1,gpu 0", "cta 2,gpu 0", "cta 3,gpu 0")


def holds(
    *threads: list[str], condition: str, places: tuple[str, ...] = OTHER_CTA, initial: str = "x=0;"
) -> bool:
    """Whether `exists condition` can be met."""
    height = max(len(thread) for thread in threads)
    header = "|".join(f"P{i}@{places[i]}" for i in range(len(threads))) + ";"
    rows = [
        "|".join(thread[row] if row < len(thread) else "" for thread in threads) + ";"
        for row in range(height)
    ]
    text = f"PTX own\n{{\n{initial}\n}}\n" + "\n".join([header, *rows]) + f"\nexists ({condition})"
    return evaluate(parse(text))


@pytest.mark.parametrize(
    ("release", "acquire", "places", "stale"),
    [
        ("gpu", "gpu", OTHER_CTA, False),
        ("sys", "gpu", OTHER_CTA, False),
        ("cta", "gpu", OTHER_CTA, True),
        ("gpu", "cta", OTHER_CTA, True),
        ("cta", "cta", SAME_CTA, False),
        ("gpu", "gpu", ("cta 0,gpu 0", "cta 0,gpu 1"), True),
        ("sys", "sys", ("cta 0,gpu 0", "cta 0,gpu 1"), False),
    ],
)
def test_message_passing_needs_scopes_that_include_each_other(
    release: str, acquire: str, places: tuple[str, ...], stale: bool
) -> None:
    writer = ["st.weak x, 1", f"st.release.{release} y, 1"]
    reader = [f"ld.acquire.{acquire} r0, y", "ld.weak r1, x"]
    assert holds(writer, reader, condition="P1:r0 == 1 /\\ P1:r1 == 0", places=places) is stale


@pytest.mark.parametrize(
    ("write_fence", "read_fence", "stale"),
    [
        ("fence.acq_rel.gpu", "fence.acq_rel.gpu", False),
        ("fence.sc.gpu", "fence.acq_rel.gpu", False),
        ("fence.acq_rel.gpu", "fence.acq_rel.cta", True),
        ("", "fence.acq_rel.gpu", True),
        ("fence.acq_rel.gpu", "", True),
    ],
)
def test_message_passing_with_fences(write_fence: str, read_fence: str, stale: bool) -> None:
    writer = [i for i in ("st.weak x, 1", write_fence, "st.relaxed.gpu y, 1") if i]
    reader = [i for i in ("ld.relaxed.gpu r0, y", read_fence, "ld.weak r1, x") if i]
    assert holds(writer, reader, condition="P1:r0 == 1 /\\ P1:r1 == 0") is stale


def test_message_passing_through_an_atomic_operation() -> None:
    writer = ["st.weak x, 1", "st.release.gpu y, 1"]
    link = ["atom.relaxed.gpu.add r0, y, 1"]
    reader = ["ld.acquire.gpu r0, y", "ld.weak r1, x"]
    condition = "P1:r0 == 1 /\\ P2:r0 == 2 /\\ P2:r1 == 0"
    assert not holds(writer, link, reader, condition=condition)
    plain = ["ld.relaxed.gpu r0, y", "st.relaxed.gpu y, 2"]
    assert holds(writer, plain, reader, condition=condition)


@pytest.mark.parametrize(("fence", "both_zero"), [("sc.gpu", False), ("sc.cta", True), ("acq_rel.gpu", True)])
def test_store_buffering_needs_fence_sc(fence: str, both_zero: bool) -> None:
    one = ["st.relaxed.gpu x, 1", f"fence.{fence}", "ld.relaxed.gpu r0, y"]
    two = ["st.relaxed.gpu y, 1", f"fence.{fence}", "ld.relaxed.gpu r0, x"]
    assert holds(one, two, condition="P0:r0 == 0 /\\ P1:r0 == 0") is both_zero


def test_fence_sc_order_agrees_with_causality() -> None:
    one = ["fence.sc.gpu", "st.release.gpu f, 1"]
    two = ["ld.acquire.gpu r0, f", "fence.sc.gpu", "st.relaxed.gpu x, 1"]
    three = ["st.relaxed.gpu y, 1", "fence.sc.gpu", "ld.relaxed.gpu r0, x"]
    condition = "P1:r0 == 1 /\\ P2:r0 == 0"
    assert holds(one, two, three, condition=condition)


def test_load_buffering_is_allowed_but_values_do_not_come_from_nowhere() -> None:
    one = ["ld.relaxed.gpu r0, x", "st.relaxed.gpu y, 1"]
    two = ["ld.relaxed.gpu r0, y", "st.relaxed.gpu x, 1"]
    assert holds(one, two, condition="P0:r0 == 1 /\\ P1:r0 == 1")
    one, two = (
        ["ld.relaxed.gpu r0, x", "st.relaxed.gpu y, r0"],
        ["ld.relaxed.gpu r0, y", "st.relaxed.gpu x, r0"],
    )
    third = ["ld.relaxed.gpu r0, z", "beq r0, 0, LC0", "st.relaxed.gpu x, 1", "LC0:"]
    assert not holds(one, two, third, condition="P0:r0 == 1 /\\ P1:r0 == 1")


@pytest.mark.parametrize(("fence", "disagree"), [("fence.sc.gpu", False), ("fence.acq_rel.gpu", True)])
def test_independent_reads_of_independent_writes(fence: str, disagree: bool) -> None:
    readers = [[f"ld.relaxed.gpu r0, {a}", fence, f"ld.relaxed.gpu r1, {b}"] for a, b in ("xy", "yx")]
    condition = "P2:r0 == 1 /\\ P2:r1 == 0 /\\ P3:r0 == 1 /\\ P3:r1 == 0"
    writers = [["st.relaxed.gpu x, 1"], ["st.relaxed.gpu y, 1"]]
    assert holds(*writers, *readers, condition=condition) is disagree


@pytest.mark.parametrize(("kind", "backwards"), [("relaxed.gpu", False), ("weak", True)])
def test_coherence_of_reads_of_one_location(kind: str, backwards: bool) -> None:
    writer = [f"st.{kind} x, 1", f"st.{kind} x, 2"]
    reader = [f"ld.{kind} r0, x", f"ld.{kind} r1, x"]
    assert holds(writer, reader, condition="P1:r0 == 2 /\\ P1:r1 == 1") is backwards


@pytest.mark.parametrize(("scope", "lost"), [("gpu", False), ("cta", True)])
def test_atomicity_holds_between_morally_strong_operations(scope: str, lost: bool) -> None:
    add = [f"atom.relaxed.{scope}.add r0, x, 1"]
    assert holds(add, add, condition="P0:r0 == 0 /\\ P1:r0 == 0") is lost


@pytest.mark.parametrize(
    ("places", "instruction", "stale"),
    [
        (SAME_CTA, "bar.cta.sync 0", False),
        (OTHER_CTA, "bar.cta.sync 0", True),
        (SAME_CTA, "bar.cta.arrive 0", True),
    ],
)
def test_barrier_orders_what_waits_in_its_cta(places: tuple[str, ...], instruction: str, stale: bool) -> None:
    condition = "P1:r0 == 0"
    assert (
        holds(
            ["st.weak x, 1", instruction], [instruction, "ld.weak r0, x"], condition=condition, places=places
        )
        is stale
    )


@pytest.mark.parametrize(
    ("between", "stale"),
    [([], True), (["fence.proxy.surface"], False), (["fence.proxy.texture"], True)],
)
def test_another_proxy_needs_its_fence(between: list[str], stale: bool) -> None:
    thread = ["sust.weak s, 1", *between, "ld.weak r0, x"]
    assert holds(thread, condition="P0:r0 == 0", initial="x=0; s @ surface aliases x;") is stale


def test_an_alias_needs_the_alias_fence() -> None:
    initial = "x=0; a @ generic aliases x;"
    assert holds(["st.weak x, 1", "ld.weak r0, a"], condition="P0:r0 == 0", initial=initial)
    fenced = ["st.weak x, 1", "fence.proxy.alias", "ld.weak r0, a"]
    assert not holds(fenced, condition="P0:r0 == 0", initial=initial)


def test_what_the_parser_does_not_know_is_an_error() -> None:
    with pytest.raises(LitmusError, match="no initial state"):
        parse("PTX nothing")
    with pytest.raises(LitmusError, match="instruction"):
        holds(["prefetch.global x"], condition="x == 0")


@pytest.mark.skipif("PTXAUDIT_DAT3M" not in os.environ, reason="PTXAUDIT_DAT3M names no git directory")
def test_published_litmus_tests_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dat3m", os.environ["PTXAUDIT_DAT3M"]]) == 0
    assert "0 disagree, 0 left out" in capsys.readouterr().out
