"""Polling loops, and how often what stands in them runs."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.polling import Frequency, first_attempts, invalidations
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.engine.inputs import load_module
from ptxaudit.ir.events import MbarrierWait

EVERY, ONCE = Frequency.EVERY_ATTEMPT, Frequency.SUCCESSFUL_WAIT
HEAD = """\
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 trips)
.reqntid 128, 1, 1
.reqnctapercluster 2, 1, 1
{
    .reg .pred %p<10>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<5>;
    .shared .align 8 .b64 full[2];
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r10, full;
    ld.param.u32 %r2, [trips];
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r3, 0;
    mov.u32 %r4, 0;
"""
TAIL = """
    st.global.u32 [%rd1], %r4;
    ret;
}
"""
NEXT_TRIP = """
    ld.global.u32 %r5, [%rd1+4];
    add.u32 %r4, %r4, %r5;
    xor.b32 %r3, %r3, 1;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p3, %r6, %r2;
    @%p3 bra TRIP;
"""
RELAXED = "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [%r10], %r3;"
ACQUIRE = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r10], %r3;"
FENCE = "fence.acq_rel.cluster;"


def in_loop(body: str) -> str:
    return f"{HEAD}TRIP:\n{body}\n{NEXT_TRIP}{TAIL}"


def analyse(text: str) -> FunctionAnalysis:
    module = load_module("k.ptx", text.encode())
    return FunctionAnalysis(module.functions[0], module)


def _ptxas() -> str | None:
    packaged = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/ptxas"))
    return shutil.which("ptxas") or (str(packaged[-1]) if packaged else None)


def assemble(text: str, folder: Path) -> FunctionAnalysis:
    tool = _ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    source, output = folder / "k.ptx", folder / "k.cubin"
    source.write_text(text)
    subprocess.run([tool, "-arch=sm_90a", "-o", str(output), str(source)], check=True)
    module = load_module("k.cubin", output.read_bytes())
    return FunctionAnalysis(module.functions[0], module)


# What stands in the loop, and how often the invalidate that polling causes runs (none: no such one).
WAITS = {
    "acquire": (f"W: {ACQUIRE} @!%p2 bra W;", [ONCE]),
    "acquire, two jumps": (f"W: {ACQUIRE} @%p2 bra D; bra W; D:", [ONCE]),
    "acquire by one thread": (f"@!%p1 bra D; W: {ACQUIRE} @!%p2 bra W; D: bar.sync 0;", [ONCE]),
    "acquire, result as a number": (
        f"W: {ACQUIRE} selp.u32 %r8, 1, 0, %p2; setp.eq.u32 %p4, %r8, 0; @%p4 bra W;",
        [ONCE],
    ),
    "acquire, all lanes": (f"W: {ACQUIRE} vote.sync.all.pred %p4, %p2, -1; @!%p4 bra W;", [ONCE]),
    "peek, then the loop": (f"{ACQUIRE} @%p2 bra D; W: {ACQUIRE} @!%p2 bra W; D:", [ONCE]),
    "relaxed": (f"W: {RELAXED} @!%p2 bra W;", []),
    "relaxed, fence after the loop": (f"W: {RELAXED} @!%p2 bra W; fence.acquire.cluster;", []),
    "relaxed, wide fence after the loop": (f"W: {RELAXED} @!%p2 bra W; {FENCE}", []),
    "fence at every attempt": (f"W: {RELAXED} {FENCE} @!%p2 bra W;", [EVERY]),
    "fence when done": (f"W: {RELAXED} @%p2 {FENCE} @!%p2 bra W;", [ONCE]),
    "fence when not done": (f"W: {RELAXED} @!%p2 {FENCE} @!%p2 bra W;", [EVERY]),
    "fence when done, one thread": (
        f"W: {RELAXED} and.pred %p4, %p2, %p1; @%p4 {FENCE} @!%p2 bra W;",
        [ONCE],
    ),
    "fence when done or one thread": (
        f"W: {RELAXED} or.pred %p4, %p2, %p1; @%p4 {FENCE} @!%p2 bra W;",
        [EVERY],
    ),
    "fence by one thread": (f"W: {RELAXED} @%p1 {FENCE} @!%p2 bra W;", [EVERY]),
    "two waits": (
        f"V: {ACQUIRE} @!%p2 bra V; st.global.u32 [%rd1], %r4; W: {ACQUIRE.replace('[%r10]', '[%r10+8]')} "
        "@!%p2 bra W;",
        [ONCE, ONCE],
    ),
}


@pytest.mark.parametrize("case", WAITS)
def test_waits_of_an_mbarrier(case: str) -> None:
    body, expected = WAITS[case]
    found = invalidations(analyse(in_loop(body)))
    assert [one.frequency for one in found] == expected
    assert all(one.enclosing is not None and len(one.loads) == 1 for one in found)


@pytest.mark.parametrize("case", WAITS)
def test_sass_agrees_with_ptx(case: str, tmp_path: Path) -> None:
    body, expected = WAITS[case]
    found = invalidations(assemble(in_loop(body), tmp_path))
    assert [one.frequency for one in found] == expected
    assert all(one.enclosing is not None and one.loads for one in found)


FLAG = "ld.{order}.gpu.global.u32 %r7, [%rd1+64]; setp.eq.u32 %p2, %r7, 0;"
TOLD = """W: bar.sync 0;
    @%p1 ld.acquire.gpu.global.u32 %r7, [%rd1+64];
    @%p1 st.shared.u32 [full], %r7;
    bar.sync 0;
    ld.shared.u32 %r8, [full];
    setp.eq.u32 %p2, %r8, 0;
    @%p2 bra W;"""
FLAGS = {
    "acquire": (f"W: {FLAG.format(order='acquire')} @%p2 bra W;", [EVERY]),
    "relaxed, fence inside": (f"W: {FLAG.format(order='relaxed')} {FENCE} @%p2 bra W;", [EVERY]),
    "relaxed, fence when set": (f"W: {FLAG.format(order='relaxed')} @!%p2 {FENCE} @%p2 bra W;", [ONCE]),
    "relaxed, fence after": (f"W: {FLAG.format(order='relaxed')} @%p2 bra W; {FENCE}", []),
    "acquire, no loop": (FLAG.format(order="acquire"), []),
    "one thread reads and tells the others": (TOLD, [EVERY]),
    "an atomic": (
        "W: atom.acquire.gpu.global.cas.b32 %r7, [%rd1], 0, 1; setp.ne.u32 %p2, %r7, 0; @%p2 bra W;",
        [EVERY],
    ),
    "back-off": (f"W: nanosleep.u32 40; {FLAG.format(order='acquire')} @%p2 bra W;", [EVERY]),
    "another place in every pass": (
        "W: ld.acquire.gpu.global.u32 %r7, [%rd1]; add.s64 %rd1, %rd1, 4; "
        "setp.eq.u32 %p2, %r7, 0; @%p2 bra W;",
        [],
    ),
    "work in the loop": (f"W: {FLAG.format(order='acquire')} st.global.u32 [%rd1], %r4; @%p2 bra W;", []),
    "the flag decides nothing": (
        f"W: {FLAG.format(order='acquire')} add.u32 %r4, %r4, %r7; add.u32 %r9, %r9, 1; "
        "setp.lt.u32 %p2, %r9, %r2; @%p2 bra W;",
        [],
    ),
}


@pytest.mark.parametrize("case", FLAGS)
def test_flags(case: str) -> None:
    body, expected = FLAGS[case]
    assert [one.frequency for one in invalidations(analyse(in_loop(body)))] == expected


@pytest.mark.parametrize("case", FLAGS)
def test_flags_in_sass(case: str, tmp_path: Path) -> None:
    body, expected = FLAGS[case]
    assert [one.frequency for one in invalidations(assemble(in_loop(body), tmp_path))] == expected


def test_a_loop_around_a_poll_with_its_header_is_told_apart() -> None:
    loops = poll_loops(analyse(in_loop(f"W: {ACQUIRE} @!%p2 bra W;")))
    (poll,), (working,) = loops.polls, loops.working
    assert poll.header == working.header
    assert poll.blocks < working.blocks
    assert loops.is_innermost(working)


def test_a_wait_outside_loops_has_none_around_it_and_sees_later_loads() -> None:
    text = f"{HEAD} ld.global.u32 %r4, [%rd1]; W: {ACQUIRE} @!%p2 bra W; {{}} {TAIL}"
    (alone,) = invalidations(analyse(text.replace("{}", "")))
    (followed,) = invalidations(analyse(text.replace("{}", "ld.global.u32 %r4, [%rd1+8];")))
    assert alone.enclosing is None
    assert alone.loads == ()
    assert [load.text.split(",")[1].strip() for load in followed.loads] == ["[%rd1+8]"]


@pytest.mark.parametrize(
    "load",
    [
        "ld.relaxed.gpu.global.u32 %r9, [%rd1+8];",
        "ld.volatile.global.u32 %r9, [%rd1+8];",
        "ld.global.cg.u32 %r9, [%rd1+8];",
        "ld.global.L1::no_allocate.u32 %r9, [%rd1+8];",
        "ld.shared.u32 %r9, [%r10];",
        "atom.global.add.u32 %r9, [%rd1+8], 1;",
    ],
)
def test_loads_that_pass_l1_by_do_not_count(load: str) -> None:
    (one,) = invalidations(analyse(f"{HEAD} W: {ACQUIRE} @!%p2 bra W; {load} {TAIL}"))
    assert one.loads == ()


def test_peeled_attempts_are_copies_of_the_one_in_the_loop(tmp_path: Path) -> None:
    body = f"ld.global.u32 %r8, [%rd1]; add.u32 %r4, %r4, %r8; W: {ACQUIRE} @!%p2 bra W;"
    analysis = assemble(in_loop(body), tmp_path)
    (one,) = invalidations(analysis)
    spelled = [i for i in analysis.function.instructions if i.opcode == "CCTL.IVALL"]
    assert one.poll is not None
    assert {one.instruction, *one.copies} == set(spelled)
    assert len(one.copies) == 1


def test_an_unknown_instruction_leaves_a_polling_loop_undecided() -> None:
    body = f"W: {RELAXED} frobnicate.u32 %r9, %r9; @!%p2 bra W;"
    loops = poll_loops(analyse(in_loop(body)))
    assert loops.polls == ()
    assert len(loops.undecided) == 1


def test_attempts_that_are_peeled_off_are_those_of_one_wait() -> None:
    text = in_loop(f"{ACQUIRE}\n@%p2 bra ON;\nWAIT: {ACQUIRE}\n@!%p2 bra WAIT;\nON:")
    analysis = analyse(text)
    first, again = (instruction.index for instruction, _ in analysis.occurrences(MbarrierWait))
    assert first_attempts(analysis) == {again: first}


def test_an_attempt_with_a_hint_follows_one_that_failed() -> None:
    text = in_loop(f"WAIT: {ACQUIRE}\n@!%p2 {ACQUIRE}\n@!%p2 bra WAIT;")
    analysis = analyse(text)
    first, again = (instruction.index for instruction, _ in analysis.occurrences(MbarrierWait))
    assert first_attempts(analysis) == {again: first}


def test_waits_one_after_the_other_are_two() -> None:
    other = ACQUIRE.replace("%r10", "%r11")
    text = in_loop(f"WAIT: {ACQUIRE}\n@!%p2 bra WAIT;\nMORE: {other}\n@!%p2 bra MORE;")
    assert first_attempts(analyse(text)) == {}
