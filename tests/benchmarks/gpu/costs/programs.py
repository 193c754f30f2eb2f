"""The loops whose cycles make the cost table: each operation, and the same loop without it.

An iteration: all warps of the CTA meet (``bar.sync``), every thread stores to global memory (``stores``), one
thread completes a phase of an mbarrier, every thread waits for it, executes the operation, and loads words
that stay in L1 (``loads``). What is loaded (zeros) is added to the next address, so no load can be left out.
"""

from dataclasses import dataclass, field

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
# Bytes between the lines of a thread's loads: more than the 1024 threads of 4 bytes that a CTA can have.
LINE = 4096
LOADED_BYTES = 16 * LINE
STORED_BYTES = 16 * LINE
CTA_BYTES = LOADED_BYTES + STORED_BYTES
STORES = (0, 1, 2, 4, 8)  # the points of an axis of the table

PLAIN_WAIT = """WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], parity;
    @!p bra WAIT;"""
PLAIN_ARRIVE = "@lead mbarrier.arrive.shared::cta.b64 _, [bar];"


@dataclass(frozen=True, slots=True)
class Body:
    """The parts of an iteration that an operation replaces or adds to, in PTX."""

    meet: str = "    bar.sync 0;"
    arrive: str = PLAIN_ARRIVE
    wait: str = PLAIN_WAIT
    before: str = ""  # before the operation, also in the loop without it
    operation: str = ""
    after: str = ""  # after the loads, also in the loop without it
    load: str = "ld.global.b32"
    arrivals: str = "1"  # that complete a phase of the mbarrier


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table: its loop and the loop that it is compared with.

    ``groups`` are the numbers of asynchronous groups in flight that the loop was built for; ``body`` and
    ``base`` depend on it. ``cluster`` is the number of CTAs of a cluster.
    """

    name: str
    instruction: str
    meaning: str
    body: Body
    base: Body = Body()
    loads: tuple[int, ...] = (0, 1, 2, 4, 8)
    stores: tuple[int, ...] = (0,)
    threads: tuple[int, ...] = (32, 64, 128, 256, 512)
    groups: int = 0
    cluster: int = 1
    setup: str = ""
    teardown: str = ""
    declarations: tuple[str, ...] = field(default=())


def program(operation: Operation, body: Body, loads: int, stores: int) -> str:
    """The PTX of one loop; the entry is ``loop(out, buffer, trips)``."""
    cluster = "" if operation.cluster == 1 else f".explicitcluster .reqnctapercluster {operation.cluster}\n"
    declarations = "\n".join(operation.declarations)
    stored = "\n".join(f"    st.global.b32 [stored+{LINE * number}], trip;" for number in range(stores))
    loaded = "\n".join(
        f"    {body.load} word, [loaded+{LINE * number}];\n    add.u32 sum, sum, word;"
        for number in range(loads)
    )
    advance = "    cvt.u64.u32 wide, sum;\n    add.u64 loaded, loaded, wide;" if loads else ""
    return f"""{HEAD}
.visible .entry loop(.param .u64 out, .param .u64 buffer, .param .u32 trips)
{cluster}{{
    .reg .pred p, lead, more;
    .reg .b32 bar, thread, parity, trip, trips_left, sum, word, cta, staging, peer, size, r<8>;
    .reg .b64 result, loaded, stored, wide, begin, passed, global, state, copied, rd<8>;
    .shared .align 8 .b64 barrier;
    .shared .align 1024 .b8 memory[65536];
    {declarations}
    ld.param.u64 result, [out];
    ld.param.u64 global, [buffer];
    ld.param.u32 trips_left, [trips];
    cvta.to.global.u64 result, result;
    cvta.to.global.u64 global, global;
    mov.u32 thread, %tid.x;
    mov.u32 cta, %ctaid.x;
    mov.u32 size, %ntid.x;
    mul.wide.u32 wide, cta, {CTA_BYTES};
    add.u64 global, global, wide;
    mul.wide.u32 wide, thread, 4;
    add.u64 loaded, global, wide;
    add.u64 stored, loaded, {LOADED_BYTES};
    mul.wide.u32 wide, thread, 16;
    add.u64 copied, global, wide;
    mov.u32 bar, barrier;
    mov.u32 staging, memory;
    mov.u32 trip, 0;
    mov.u32 sum, 0;
    setp.eq.u32 lead, thread, 0;
    @lead mbarrier.init.shared::cta.b64 [bar], {body.arrivals};
    fence.mbarrier_init.release.cluster;
{operation.setup}
    bar.sync 0;
    mov.u64 begin, %clock64;
LOOP:
{body.meet}
{stored}
    {body.arrive}
    and.b32 parity, trip, 1;
{body.wait}
{body.before}
{body.operation}
{loaded}
{advance}
{body.after}
    add.u32 trip, trip, 1;
    setp.lt.u32 more, trip, trips_left;
    @more bra LOOP;
    mov.u64 passed, %clock64;
    sub.u64 passed, passed, begin;
{operation.teardown}
    mul.wide.u32 wide, cta, size;
    cvt.u64.u32 rd0, thread;
    add.u64 wide, wide, rd0;
    shl.b64 wide, wide, 3;
    add.u64 result, result, wide;
    cvt.u64.u32 rd1, sum;
    add.u64 passed, passed, rd1;
    st.global.u64 [result], passed;
    ret;
}}
"""


def _wait(modifiers: str) -> str:
    return f"""WAIT:
    mbarrier.try_wait.parity{modifiers}.shared::cta.b64 p, [bar], parity;
    @!p bra WAIT;"""


def _after_wait(name: str, instruction: str, meaning: str, stores: tuple[int, ...] = STORES) -> Operation:
    return Operation(name, instruction, meaning, Body(operation=f"    {instruction};"), stores=stores)


FENCES = tuple(
    _after_wait(f"fence.{semantics}.{scope}", f"fence.{semantics}.{scope}", "after an mbarrier wait")
    for semantics in ("acq_rel", "sc")
    for scope in ("cta", "cluster", "gpu", "sys")
)

PROXY_FENCES = tuple(
    _after_wait(name, name, "after an mbarrier wait")
    for name in ("fence.proxy.async", "fence.proxy.async.global", "fence.proxy.async.shared::cta")
)

RESTRICTED = tuple(
    _after_wait(
        f"fence.{semantics}.sync_restrict::shared::{of}.cluster",
        f"fence.{semantics}.sync_restrict::shared::{of}.cluster",
        "after an mbarrier wait",
    )
    for semantics, of in (("acquire", "cluster"), ("release", "cta"))
)

WAITS = tuple(
    Operation(
        f"mbarrier.wait.{modifiers}",
        f"mbarrier.try_wait.parity.{modifiers}.shared::cta.b64",
        "instead of a wait at the default .acquire.cta, for a phase that completes at about the same time",
        Body(wait=_wait("." + modifiers)),
        stores=STORES,
    )
    for modifiers in ("acquire.cluster", "relaxed.cluster", "relaxed.cta")
)

BASE_WAIT = Operation(
    "mbarrier.wait.acquire.cta",
    "mbarrier.arrive.shared::cta.b64; mbarrier.try_wait.parity.shared::cta.b64",
    "one thread's arrival and everybody's wait for it, on top of bar.sync",
    Body(),
    Body(arrive="", wait=""),
)


def _everybody_arrives(scope: str) -> Body:
    return Body(
        arrive=f"mbarrier.arrive.release.{scope}.shared::cta.b64 _, [bar];",
        arrivals="size",
    )


ARRIVALS = tuple(
    Operation(
        f"mbarrier.arrive.release.{scope}",
        f"mbarrier.arrive.release.{scope}.shared::cta.b64",
        f"by every thread of the CTA, instead of {instead}; the phase is waited for",
        _everybody_arrives(scope),
        base,
        stores=STORES,
    )
    for scope, instead, base in (
        ("cta", "by one", Body()),
        ("cluster", "by every thread at .cta", _everybody_arrives("cta")),
    )
)

CTA_BARRIER = Operation(
    "barrier.cta",
    "bar.sync 1",
    "a second barrier of all threads right behind the first",
    Body(operation="    bar.sync 1;"),
)

CLUSTER_BARRIERS = tuple(
    Operation(
        f"barrier.cluster.{semantics}",
        f"barrier.cluster.arrive.{semantics}.aligned; barrier.cluster.wait.acquire.aligned",
        "of the 2 CTAs of a cluster",
        Body(
            operation=f"    barrier.cluster.arrive.{semantics}.aligned;\n"
            "    barrier.cluster.wait.acquire.aligned;"
        ),
        stores=STORES,
        cluster=2,
    )
    for semantics in ("release", "relaxed")
)

READS = (
    Operation(
        "ld.acquire.gpu",
        "ld.acquire.gpu.global.b32",
        "instead of ld.relaxed.gpu.global.b32 of the same word",
        Body(operation="    ld.acquire.gpu.global.b32 r0, [global];\n    add.u32 sum, sum, r0;"),
        Body(operation="    ld.relaxed.gpu.global.b32 r0, [global];\n    add.u32 sum, sum, r0;"),
    ),
    Operation(
        "ld.relaxed.gpu",
        "ld.relaxed.gpu.global.b32",
        "a load that goes to L2, its value used at once",
        Body(
            operation="    ld.relaxed.gpu.global.b32 r0, [global];\n    add.u32 sum, sum, r0;\n"
            "    cvt.u64.u32 wide, sum;\n    add.u64 loaded, loaded, wide;"
        ),
    ),
    Operation(
        "red.release.gpu",
        "red.release.gpu.global.add.u32",
        "instead of red.relaxed.gpu.global.add.u32, by one thread",
        Body(operation="    @lead red.release.gpu.global.add.u32 [stored], r7;"),
        Body(operation="    @lead red.relaxed.gpu.global.add.u32 [stored], r7;"),
        stores=STORES,
    ),
    Operation(
        "st.release.gpu",
        "st.release.gpu.global.u32",
        "instead of st.relaxed.gpu.global.u32, by one thread",
        Body(operation="    @lead st.release.gpu.global.u32 [stored], trip;"),
        Body(operation="    @lead st.relaxed.gpu.global.u32 [stored], trip;"),
        stores=STORES,
    ),
)


def _copy_groups(groups: int) -> str:
    return "\n".join(
        f"    cp.async.cg.shared.global [r6+{16384 * number}], [copied], 16;\n    cp.async.commit_group;"
        for number in range(groups)
    )


_COPY_SETUP = "    shl.b32 r6, thread, 4;\n    add.u32 r6, r6, staging;"

COPY_WAITS = tuple(
    Operation(
        "cp.async.wait",
        "cp.async.wait_group 0",
        "with 16-byte copies from L2 committed right before; without the wait they go on over the loop's end",
        Body(before=_copy_groups(groups), operation="    cp.async.wait_group 0;"),
        Body(before=_copy_groups(groups), after="    cp.async.wait_group 4;"),
        loads=(0,),
        groups=groups,
        setup=_COPY_SETUP,
        teardown="    cp.async.wait_all;",
    )
    for groups in (0, 1, 2)
)


def _bulk_groups(groups: int) -> str:
    return "\n".join(
        f"    @lead cp.async.bulk.global.shared::cta.bulk_group [global+{LOADED_BYTES}],"
        f" [staging+{4096 * number}], 512;\n    @lead cp.async.bulk.commit_group;"
        for number in range(groups)
    )


BULK_WAITS = tuple(
    Operation(
        f"bulk.wait{of}",
        f"cp.async.bulk.wait_group{of} 0",
        "by one thread, with bulk stores of 512 bytes committed right before; without it they go on",
        Body(before=_bulk_groups(groups), operation=f"    @lead cp.async.bulk.wait_group{of} 0;"),
        Body(before=_bulk_groups(groups), after=f"    @lead cp.async.bulk.wait_group{of} 4;"),
        loads=(0,),
        groups=groups,
        teardown="    cp.async.bulk.wait_group 0;",
    )
    for of in ("", ".read")
    for groups in (0, 1, 2)
)

COMMIT = Operation(
    "bulk.commit",
    "cp.async.bulk.commit_group (UTMACMDFLUSH)",
    "by one thread, with nothing to commit",
    Body(operation="    @lead cp.async.bulk.commit_group;"),
    loads=(0,),
)

MISCELLANEOUS = (
    Operation(
        "fence.mbarrier_init",
        "fence.mbarrier_init.release.cluster",
        "after an mbarrier wait",
        Body(operation="    fence.mbarrier_init.release.cluster;"),
        stores=STORES,
    ),
    Operation(
        "fence.proxy.tensormap.acquire.gpu",
        "fence.proxy.tensormap::generic.acquire.gpu",
        "after an mbarrier wait, of the same 128 bytes each time",
        Body(operation="    fence.proxy.tensormap::generic.acquire.gpu [global], 128;"),
    ),
    Operation(
        "fence.proxy.tensormap.release.gpu",
        "fence.proxy.tensormap::generic.release.gpu",
        "after an mbarrier wait",
        Body(operation="    fence.proxy.tensormap::generic.release.gpu;"),
        stores=STORES,
    ),
    Operation(
        "griddepcontrol.wait",
        "griddepcontrol.wait",
        "in a kernel that was launched without a prerequisite",
        Body(operation="    griddepcontrol.wait;"),
    ),
    Operation(
        "griddepcontrol.launch_dependents",
        "griddepcontrol.launch_dependents",
        "in a kernel that was launched without dependents",
        Body(operation="    griddepcontrol.launch_dependents;"),
    ),
    Operation(
        "bar.warp.sync",
        "bar.warp.sync",
        "of a converged warp",
        Body(operation="    bar.warp.sync 0xffffffff;"),
        loads=(0,),
    ),
)

# Shared-memory descriptor without swizzle: leading and stride offsets of 128 and 256 bytes, of any address.
_DESCRIPTORS = """    shr.u32 r5, staging, 4;
    and.b32 r5, r5, 0x3fff;
    cvt.u64.u32 rd6, r5;
    or.b64 rd6, rd6, 0x0000001000080000;
    wgmma.fence.sync.aligned;"""


def _products(count: int, registers: str) -> str:
    shape = "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
    product = f"    {shape} {{{registers}}}, rd6, rd6, 1, 1, 1, 0, 0;\n"
    return product * count + "    wgmma.commit_group.sync.aligned;"


def _accumulators(name: str) -> str:
    return ", ".join(f"{name}{number}" for number in range(64))


def _zeroed(name: str) -> str:
    return "\n".join(f"    mov.f32 {name}{number}, 0f00000000;" for number in range(64))


def _after_products(groups: int, depth: int) -> Body:
    return Body(
        arrive="",
        wait="",
        before=_products(groups, _accumulators("acc")),
        operation=f"    wgmma.wait_group.sync.aligned {depth};",
    )


WGMMA_WAITS = tuple(
    Operation(
        f"wgmma.wait.{depth}",
        f"wgmma.wait_group.sync.aligned {depth}",
        "instead of a wait that leaves two groups; behind a group of m64n128k16 products of each warpgroup",
        _after_products(groups, depth),
        _after_products(groups, 2),
        loads=(0,),
        threads=(128, 256, 384),
        groups=groups,
        setup=_DESCRIPTORS + "\n" + _zeroed("acc"),
        teardown="    wgmma.wait_group.sync.aligned 0;\n    cvt.rzi.u32.f32 r4, acc0;\n"
        "    add.u32 sum, sum, r4;",
        declarations=(".reg .f32 acc<64>;",),
    )
    for depth in (0, 1)
    for groups in (1, 2, 4)
)

OPERATIONS: tuple[Operation, ...] = (
    BASE_WAIT,
    *WAITS,
    *FENCES,
    *RESTRICTED,
    *PROXY_FENCES,
    *ARRIVALS,
    CTA_BARRIER,
    *CLUSTER_BARRIERS,
    *READS,
    *COPY_WAITS,
    *BULK_WAITS,
    COMMIT,
    *MISCELLANEOUS,
    *WGMMA_WAITS,
)
