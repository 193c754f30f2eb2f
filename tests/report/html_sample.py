"""A rich report for the HTML page's tests and pictures: what an audit of a few real kernels would say."""

from dataclasses import replace

from code_sample import joined, ptx_code, sass_text

from ptxaudit.report.codepage import pack_code
from ptxaudit.rules.code import FunctionCode
from ptxaudit.rules.model import (
    AuditReport,
    Category,
    CodePlace,
    Confidence,
    Cost,
    Finding,
    Fix,
    FunctionReport,
    InputReport,
    Severity,
    Verdict,
    Witness,
    WitnessEdge,
    WitnessStep,
)
from ptxaudit.rules.pattern import Example, Pattern, Reference
from ptxaudit.source import Location, LocationKind

SPLITK = "build/gemm_splitk_64x32.sm_100a.ptx"
HOPPER = "build/attention_fwd_ws.sm_90a.ptx"
CUBIN = "build/gemm_splitk_64x32.sm_100a.cubin"
BROKEN = "build/truncated.cubin"
SPLITK_NAME = "gemm_splitk_tma_64x32_splits3"
SPLITK_DEMANGLED = (
    "void gemm::splitk_kernel<gemm::Tile<64, 32, 128>, 3, 6, false, __nv_bfloat16>"
    "(gemm::SplitKParams<__nv_bfloat16>)"
)

SPLITK_PTX = """//
// Split-K GEMM: CTAs of a cluster reduce their partial tiles through a mailbox.
//
.version 8.8
.target sm_100a
.address_size 64

.visible .entry gemm_splitk_tma_64x32_splits3(
\t.param .align 64 .b8 params[384]
)
.maxntid 192
{
\t.reg .pred \t%p<24>;
\t.reg .b32 \t%r<310>;
\t.reg .b64 \t%rd<96>;
\t.reg .f32 \t%f<140>;

\tmov.u32 \t%r4, %cluster_ctarank;
\tmov.u32 \t%r5, %tid.x;
\tsetp.ne.u32 \t%p3, %r4, 0;
\t@%p3 bra \t$L__publish;

\t// the leader waits until every peer has written its partial tile
\tmov.u32 \t%r70, mailbox_full;
$L__mailbox_wait:
\tmbarrier.try_wait.parity.shared::cta.b64 \t%p7, [%r70], %r61;
\t@%p7 bra \t$L__mailbox_done;
\tbra.uni \t$L__mailbox_wait;
$L__mailbox_done:
\tld.shared.v4.f32 \t{%f10, %f11, %f12, %f13}, [%r80];
\tadd.f32 \t%f20, %f20, %f10;
\tadd.f32 \t%f21, %f21, %f11;
\tbra.uni \t$L__store;

$L__publish:
\tmapa.shared::cluster.u32 \t%r90, %r80, 0;
\tmapa.shared::cluster.u32 \t%r9, %r70, 0;
\tst.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 \t[%r90], {%f20, %f21, %f22, %f23}, [%r9];
\tadd.s32 \t%r90, %r90, 16;
\tbra.uni \t$L__exit;

$L__store:
\tst.global.v4.f32 \t[%rd40], {%f20, %f21, %f22, %f23};
$L__exit:
\tret;
}
"""

HOPPER_PTX = """.version 8.7
.target sm_90a
.address_size 64

.visible .entry attention_fwd_ws(
\t.param .u64 q,
\t.param .u64 out
)
{
\t.reg .pred \t%p<12>;
\t.reg .b32 \t%r<200>;
\t.reg .b64 \t%rd<40>;
\t.reg .f32 \t%f<80>;

$L__mainloop:
\tmbarrier.try_wait.parity.shared::cta.b64 \t%p2, [%r20], %r31;
\t@!%p2 bra \t$L__mainloop;
\twgmma.fence.sync.aligned;
\twgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 \t{%f0, %f1, %f2, %f3}, %rd10, %rd11, %p5, 1, 1, 0, 0;
\twgmma.commit_group.sync.aligned;
\t// one group may stay in flight
\twgmma.wait_group.sync.aligned \t1;
\tmbarrier.arrive.release.cta.shared::cta.b64 \t_, [%r24];
\tadd.s32 \t%r40, %r40, 1;
\tsetp.lt.s32 \t%p4, %r40, %r41;
\t@%p4 bra \t$L__mainloop;
\twgmma.wait_group.sync.aligned \t0;
\tret;
}

.visible .entry attention_combine(
\t.param .u64 partial
)
{
\tret;
}
"""


def _sass() -> str:
    lines = [
        f'\t.section\t.text.{SPLITK_NAME},"ax",@progbits',
        f".text.{SPLITK_NAME}:",
        "        /*0000*/                   LDC R1, c[0x0][0x37c] ;",
    ]
    special = {
        0x0A10: ".L_x_12:",
        0x0A20: "SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR9], R13 ;",
        0x0A30: "@!P2 NANOSLEEP.SYNCS 0x989680 ;",
        0x0A40: "CCTL.IVALL ;",
        0x0A50: "@!P2 BRA `(.L_x_12) ;",
        0x0A60: "LDS.128 R20, [R8+UR4] ;",
        0x1880: "EXIT ;",
    }
    for offset in range(0x10, 0x1890, 0x10):
        text = special.get(offset, f"IMAD.MOV.U32 R{offset // 16 % 60}, RZ, RZ, R{offset // 16 % 31} ;")
        if text.startswith("."):
            lines.append(text)
            text = "SHF.L.U32 R13, R3, 0x1f, RZ ;"
        lines.append(f"        /*{offset:04x}*/                   {text}")
    lines += ['\t.section\t.text.reduce_rows,"ax",@progbits', ".text.reduce_rows:"]
    lines += [
        f"        /*{offset:04x}*/                   IADD3 R{offset // 16 % 40}, PT, PT, R4, R5, RZ ;"
        for offset in range(0, 0x600, 0x10)
    ]
    return "\n".join(lines) + "\n"


def _ptx(file: str, text: str, needle: str) -> Location:
    line = next(number for number, line in enumerate(text.split("\n"), 1) if needle in line)
    return Location(LocationKind.PTX, file, line, 2)


def _splitk(needle: str, role: str, code: str, note: str | None = None) -> CodePlace:
    return CodePlace(role, _ptx(SPLITK, SPLITK_PTX, needle), code, note)


def _hopper(needle: str, role: str, code: str, note: str | None = None) -> CodePlace:
    return CodePlace(role, _ptx(HOPPER, HOPPER_PTX, needle), code, note)


SCOPE = Finding(
    rule="mbarrier-wait-scope-too-narrow",
    category=Category.CORRECTNESS,
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    function=SPLITK_NAME,
    input=SPLITK,
    message="The wait on `mailbox_full` acquires at `.cta` scope, but its phase is completed by `st.async` "
    "from another CTA of the cluster: the partial tile it announces need not be visible.",
    primary=_splitk(
        "try_wait", "wait", "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r70], %r61;"
    ),
    related=(
        _splitk(
            "st.async",
            "completes the phase",
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r90], ...;",
            "A peer CTA writes the leader's shared memory and completes `mailbox_full` in one operation.",
        ),
        _splitk(
            "ld.shared.v4",
            "reads the payload",
            "ld.shared.v4.f32 {%f10, %f11, %f12, %f13}, [%r80];",
            "The first read that relies on the wait.",
        ),
    ),
    evidence=(
        "`mbarrier.try_wait` without qualifiers is `.acquire.cta`.",
        "`%r9` is `mapa` of `mailbox_full` in CTA rank 0, so the completing `st.async` runs in another CTA.",
        "No fence with `.cluster` or wider scope lies on any path from the wait to the read.",
    ),
    path=("$L__mailbox_wait", "$L__mailbox_done"),
    fix=Fix(
        "Acquire at cluster scope, the narrowest that covers the peers.",
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%r70], %r61;",
    ),
    assumptions=("The kernel is launched with more than one CTA per cluster.",),
    witness=Witness(
        (
            WitnessStep("CTA 1", "st.async writes the partial tile into CTA 0's shared memory",
                        _ptx(SPLITK, SPLITK_PTX, "st.async")),
            WitnessStep("CTA 1", "complete_tx on mailbox_full in CTA 0"),
            WitnessStep("CTA 0", "try_wait.acquire.cta on mailbox_full succeeds",
                        _ptx(SPLITK, SPLITK_PTX, "try_wait")),
            WitnessStep("CTA 0", "ld.shared reads the old tile", _ptx(SPLITK, SPLITK_PTX, "ld.shared.v4")),
        ),
        (
            WitnessEdge(0, 1, "same operation"),
            WitnessEdge(1, 2, "observed at .cta, needs .cluster", missing=True),
            WitnessEdge(2, 3, "program order"),
        ),
    ),
    fingerprint="9c41f0a27be3d518",
)  # fmt: skip

RELEASE = Finding(
    rule="wgmma-stage-released-early",
    category=Category.CORRECTNESS,
    severity=Severity.ERROR,
    confidence=Confidence.MEDIUM,
    function="attention_fwd_ws",
    input=HOPPER,
    message="Stage `i mod 4` is handed back to the producer while the wgmma group that reads it may still be "
    "in flight: `wgmma.wait_group 1` leaves the newest group outstanding.",
    primary=_hopper(
        "mbarrier.arrive", "release", "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r24];"
    ),
    related=(
        _hopper(
            "wgmma.mma_async",
            "still reads the stage",
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {...}, %rd10, %rd11, ...;",
            "Committed in the same iteration; group depth at the arrive is 1.",
        ),
        _hopper("wait_group.sync.aligned \t1", "waits too little", "wgmma.wait_group.sync.aligned 1;",
                "Completes the group of the previous iteration only."),
    ),
    evidence=(
        "At the arrive, at most 1 and at least 1 wgmma group is outstanding.",
        "Descriptor `%rd11` and barrier `%r24` carry the same stage index in this iteration.",
    ),
    path=("$L__mainloop", "BB2", "BB3 (loop)", "$L__mainloop"),
    fix=Fix(
        "Wait for the group that read the stage before releasing it, or release the previous stage.",
        "wgmma.wait_group.sync.aligned 0;\nmbarrier.arrive.release.cta.shared::cta.b64 _, [%r24];",
    ),
    assumptions=("Both warpgroups run the same number of iterations.",),
    witness=Witness(
        (
            WitnessStep("TMA", "writes K tile 0 into stage 0", iteration=0),
            WitnessStep("warps 4-7", "full[0] wait succeeds", _ptx(HOPPER, HOPPER_PTX, "try_wait"), 0),
            WitnessStep("tensor core", "wgmma group 0 starts to read stage 0",
                        _ptx(HOPPER, HOPPER_PTX, "wgmma.mma_async"), 0),
            WitnessStep("warps 4-7", "wait_group 1: group 0 stays outstanding",
                        _ptx(HOPPER, HOPPER_PTX, "wait_group.sync.aligned \t1"), 0),
            WitnessStep("warps 4-7", "arrive on empty[0]", _ptx(HOPPER, HOPPER_PTX, "mbarrier.arrive"), 0),
            WitnessStep("warp 0", "empty[0] wait succeeds, issues the next copy", None, 4),
            WitnessStep("TMA", "overwrites stage 0 with K tile 4", iteration=4),
            WitnessStep("tensor core", "wgmma group 0 reads stage 0: half of it is tile 4", iteration=0),
        ),
        (
            WitnessEdge(0, 1, "complete_tx, acquire.cta"),
            WitnessEdge(1, 2, "program order"),
            WitnessEdge(4, 5, "release.cta to acquire.cta"),
            WitnessEdge(5, 6, "issue"),
            WitnessEdge(7, 6, "reads done before overwrite", missing=True),
        ),
    ),
    fingerprint="41be77d0c2a9e603",
)  # fmt: skip

INVALIDATE = Finding(
    rule="l1-invalidate-in-poll-loop",
    category=Category.PERFORMANCE,
    severity=Severity.WARNING,
    confidence=Confidence.HIGH,
    function=SPLITK_NAME,
    input=CUBIN,
    message="The poll loop invalidates the whole L1 on every attempt, not once after the wait succeeds.",
    primary=CodePlace(
        "invalidate", Location(LocationKind.SASS, CUBIN, offset=0x0A40), "CCTL.IVALL ;"
    ),
    related=(
        CodePlace(
            "wait",
            Location(LocationKind.SASS, CUBIN, offset=0x0A20),
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR9], R13 ;",
            "Sets `P2` on success; the invalidate does not depend on it.",
        ),
        CodePlace(
            "source",
            Location(LocationKind.SOURCE, "src/splitk_mailbox.cuh", line=118, column=9),
            "while (!barrier.try_wait(phase)) {}",
            "The loop in the source.",
        ),
    ),
    evidence=("The block is its own successor, and `CCTL.IVALL` carries no guard.",),
    path=(".L_x_12",),
    fix=Fix(
        "Poll with `.relaxed` and fence once after the loop.",
        "WAIT:\n  mbarrier.try_wait.relaxed.cluster.shared::cta.b64 p, [bar], phase;\n  @!p bra WAIT;\n"
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
    ),
    cost=Cost("every poll attempt", "Later loads of this SM miss L1.", (235, 305), "sm_90"),
    fingerprint="d07a55318ce0b6f2",
)  # fmt: skip

MEMBAR = Finding(
    rule="gpu-membar-in-hot-loop",
    category=Category.PERFORMANCE,
    severity=Severity.NOTE,
    confidence=Confidence.LOW,
    function="reduce_rows",
    input=CUBIN,
    message="A GPU-wide fence runs in every iteration of the row loop.",
    primary=CodePlace("fence", Location(LocationKind.SASS, CUBIN, offset=0x9990), "MEMBAR.SC.GPU ;"),
    cost=Cost("every iteration", "Waits for all earlier writes of the thread.", (700, 1900), "sm_100"),
    fingerprint="0b8812fd64aa9917",
)

SUPPRESSED = replace(
    MEMBAR, function="attention_combine", input=HOPPER, fingerprint="77aa", suppressed="runs once per launch"
)

RULES = (
    "mbarrier-wait-scope-too-narrow",
    "relaxed-wait-without-acquire",
    "acquire-fence-too-narrow",
    "remote-arrive-scope-too-narrow",
    "wgmma-stage-released-early",
    "l1-invalidate-in-poll-loop",
    "gpu-membar-in-hot-loop",
)
SCOPE_REASON = (
    "Only SASS was given: a default-scope wait and a relaxed wait followed by an acquire fence assemble to "
    "the same instructions."
)
STAGE_REASON = (
    "The released stage `%r24` is loaded from memory, so it cannot be told from the stage that is read."
)


def pattern(rule: str) -> Pattern:
    """A pattern with the words of a rule, as the engine would load it."""
    performance = rule.startswith(("l1", "gpu"))
    return Pattern(
        id=rule,
        title=rule.replace("-", " ").capitalize(),
        category=Category.PERFORMANCE if performance else Category.CORRECTNESS,
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        status="stable",
        message="at {function}",
        rationale="An acquire takes effect only among threads of its scope.\n\nWrites of another CTA that "
        "are announced by the barrier may then be seen late, or never by this read.",
        limits="It cannot tell how large the cluster is when that is set at launch.",
        evidence="PTX",
        trap="A wait for bytes that this CTA's own TMA wrote: `.cta` suffices.",
        fix=Fix("Widen the scope of the wait.", "mbarrier.try_wait.acquire.cluster.b64 p, [bar], state;"),
        inputs=("ptx",),
        architectures=(),
        references=(Reference("9.7.13.15.16", "mbarrier.test_wait, mbarrier.try_wait"),),
        thresholds={},
        example=Example("bad", "good"),
        cost=None,
    )


PATTERNS = {rule: pattern(rule) for rule in RULES}


def _verdicts(**given: Verdict) -> dict[str, Verdict]:
    named = {name.replace("_", "-"): verdict for name, verdict in given.items()}
    return {rule: named.get(rule, Verdict.NOT_APPLICABLE) for rule in RULES}


FUNCTIONS = (
    FunctionReport(
        SPLITK_NAME, SPLITK_DEMANGLED, SPLITK, "sm_100a", "ptx",
        _verdicts(
            mbarrier_wait_scope_too_narrow=Verdict.FINDING,
            relaxed_wait_without_acquire=Verdict.CLEAN,
            acquire_fence_too_narrow=Verdict.CLEAN,
            remote_arrive_scope_too_narrow=Verdict.CLEAN,
        ),
        facts={"threads": "192", "mbarriers": "14"},
    ),
    FunctionReport(
        SPLITK_NAME, SPLITK_DEMANGLED, CUBIN, "sm_100a", "sass",
        _verdicts(
            mbarrier_wait_scope_too_narrow=Verdict.UNKNOWN,
            relaxed_wait_without_acquire=Verdict.UNKNOWN,
            l1_invalidate_in_poll_loop=Verdict.FINDING,
            gpu_membar_in_hot_loop=Verdict.CLEAN,
        ),
        {"mbarrier-wait-scope-too-narrow": SCOPE_REASON, "relaxed-wait-without-acquire": SCOPE_REASON},
        {"registers": "168", "spills": "0"},
    ),
    FunctionReport(
        "attention_fwd_ws", "attention_fwd_ws", HOPPER, "sm_90a", "ptx",
        _verdicts(
            wgmma_stage_released_early=Verdict.FINDING,
            mbarrier_wait_scope_too_narrow=Verdict.CLEAN,
            relaxed_wait_without_acquire=Verdict.CLEAN,
        ),
    ),
    FunctionReport(
        "attention_combine", "attention_combine", HOPPER, "sm_90a", "ptx",
        _verdicts(wgmma_stage_released_early=Verdict.UNKNOWN),
        {"wgmma-stage-released-early": STAGE_REASON},
    ),
    FunctionReport(
        "reduce_rows", "reduce_rows(float const*, float*, int)", CUBIN, "sm_100a", "sass",
        _verdicts(gpu_membar_in_hot_loop=Verdict.FINDING, mbarrier_wait_scope_too_narrow=Verdict.UNKNOWN),
        {"mbarrier-wait-scope-too-narrow": SCOPE_REASON},
    ),
)  # fmt: skip


def sample_code() -> dict[tuple[str, str], FunctionCode]:
    """The code of the sample's functions; the split-K kernel has its SASS beside it."""
    code = {(SPLITK, name): one for name, one in ptx_code(SPLITK, SPLITK_PTX).items()}
    code |= {(HOPPER, name): one for name, one in ptx_code(HOPPER, HOPPER_PTX).items()}
    sass = {name: sass_text(CUBIN, _sass(), name) for name in (SPLITK_NAME, "reduce_rows")}
    code |= {(CUBIN, name): FunctionCode(name, name, (text,)) for name, text in sass.items()}
    code[SPLITK, SPLITK_NAME] = joined(code[SPLITK, SPLITK_NAME], sass[SPLITK_NAME])
    return code


def sample_report() -> AuditReport:
    """Three readable inputs, one broken, four findings, one suppressed, three undecided functions."""
    return AuditReport(
        tool_version="0.1.0",
        inputs=(
            InputReport(SPLITK, "ptx", "3f" * 32),
            InputReport(
                CUBIN, "cubin", "a1" * 32, notes=("Opcode `UTMAX.X` is not in the table; kept opaque.",)
            ),
            InputReport(HOPPER, "ptx", "77" * 32),
            InputReport(
                BROKEN, "cubin", "00" * 32, f"{BROKEN}+0x40: found end of file, expected a section header"
            ),
        ),
        functions=FUNCTIONS,
        findings=(MEMBAR, INVALIDATE, SCOPE, RELEASE, SUPPRESSED),
        listings={SPLITK: SPLITK_PTX, HOPPER: HOPPER_PTX, CUBIN: _sass()},
        code={key: pack_code(one) for key, one in sample_code().items()},
    )


def large_report(functions: int = 500, findings: int = 400, lines: int = 18_000) -> AuditReport:
    """A report of the size of a whole library: many functions, and one very long kernel, the first."""
    base = sample_report()
    filler = "".join(
        f"\tadd.s32 \t%r{number % 300}, %r{number % 299}, {number};\n" for number in range(lines)
    )
    listing = SPLITK_PTX.replace("$L__exit:\n", filler + "$L__exit:\n")
    many = tuple(
        replace(
            FUNCTIONS[number % len(FUNCTIONS)],
            name=f"kernel_{number}",
            demangled=f"void library::kernel<{number % 16}, {number}>(float*, int)",
        )
        for number in range(functions)
    )
    kinds = (SCOPE, INVALIDATE, MEMBAR, RELEASE)
    found = tuple(
        replace(
            kinds[number % 4],
            function=f"kernel_{number % functions}",
            fingerprint=f"{number:016x}",
        )
        for number in range(findings)
    )
    code = {
        (item.input, item.name): base.code[item.input, FUNCTIONS[0].name]
        for item in many[1:]
        if item.input == SPLITK
    }
    code[SPLITK, "kernel_0"] = pack_code(ptx_code(SPLITK, listing)[SPLITK_NAME])
    listings = {**base.listings, SPLITK: listing}
    return replace(base, functions=many, findings=found, listings=listings, code=code)
