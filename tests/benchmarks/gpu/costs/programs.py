"""The loops whose cycles make the cost table: each operation, and the same loop without it.

An iteration: all warps of the CTA meet (``bar.sync``), every thread stores to global memory (``stores``), one
thread completes a phase of an mbarrier, every thread waits for it, executes the operation, and loads words
that stay in L1 (``loads``). What is loaded (zeros) is added to the next address, so no load can be left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import product

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
# Bytes between the lines of a thread's loads: more than the 1024 threads of 4 bytes that a CTA can have.
LINE = 4096
LOADED_BYTES = 16 * LINE
STORED_BYTES = 16 * LINE
CTA_BYTES = LOADED_BYTES + STORED_BYTES
STORES = (0, 1, 2, 4, 8)  # the points of an axis of the table
WARP = 32
# The axes of the loops with work: cycles of its chain, and the threads and loads that they are measured at.
CYCLES_OF_A_STEP = 4  # of a fused multiply-add that needs the one before
WORK = (0, 24, 40, 56, 72, 96, 192, 384)
WORKED_LOADS = (0, 1, 5)
RING_THREADS = (32, 160, 320, 480)

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


class Beside(Enum):
    """The loop in which an operation is measured beside work."""

    SAME = "as without work"
    RING = "in a ring"


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table: its loop and the loop that it is compared with.

    ``groups`` are the numbers of asynchronous groups in flight that the loop was built for; ``body`` and
    ``base`` depend on it. ``cluster`` is the number of CTAs of a cluster; ``beside_work`` is the loop in
    which it is measured beside work, if it is.
    """

    name: str
    instruction: str
    meaning: str
    body: Body
    base: Body = Body()
    loads: tuple[int, ...] = (0, 1, 2, 4, 8)
    stores: tuple[int, ...] = (0,)
    threads: tuple[int, ...] = (32, 64, 128, 208, 256, 512)
    groups: int = 0
    cluster: int = 1
    setup: str = ""
    teardown: str = ""
    declarations: tuple[str, ...] = field(default=())
    beside_work: Beside | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """Where an operation is measured; ``work`` is ``None`` in its own loop."""

    threads: int
    loads: int
    stores: int = 0
    work: int | None = None


def points(operation: Operation) -> Iterator[Point]:
    """Every point that an operation is measured at."""
    for loads, stores, threads in product(operation.loads, operation.stores, operation.threads):
        yield Point(threads, loads, stores)
    if operation.beside_work is not None:
        sizes = RING_THREADS if operation.beside_work is Beside.RING else operation.threads
        for loads, work, threads in product(WORKED_LOADS, WORK, sizes):
            yield Point(threads, loads, 0, work)


def text_at(operation: Operation, body: Body, point: Point) -> str:
    """The PTX of the loop of one point."""
    if point.work is not None and operation.beside_work is Beside.RING:
        return ring(body, point.loads, point.work)
    return program(operation, body, point.loads, point.stores, point.work or 0)


def launched(operation: Operation, point: Point) -> int:
    """The threads of a CTA: those that the point is of, and in a ring the producer warp."""
    in_ring = point.work is not None and operation.beside_work is Beside.RING
    return point.threads + (WARP if in_ring else 0)


def _chain(work: int) -> str:
    return "    fma.rn.f32 value, value, value, value;\n" * (work // CYCLES_OF_A_STEP)


def _loaded(body: Body, loads: int) -> str:
    lines = [
        f"    {body.load} word, [loaded+{LINE * number}];\n    add.u32 sum, sum, word;"
        for number in range(loads)
    ]
    advance = "    cvt.u64.u32 wide, sum;\n    add.u64 loaded, loaded, wide;"
    return "\n".join([*lines, advance] if loads else lines)


_USED = "    cvt.rzi.u32.f32 r0, value;\n    and.b32 r0, r0, 1;\n    add.u32 sum, sum, r0;"


def ring(body: Body, loads: int, work: int) -> str:
    """The PTX of a ring of two stages: warp 0 fills them, all others wait, work and give them back."""
    setup = """    sub.u32 r1, size, 32;
    shr.u32 r1, r1, 5;
    mov.u32 full, filled;
    mov.u32 empty, emptied;
    @lead mbarrier.init.shared::cta.b64 [full], 1;
    @lead mbarrier.init.shared::cta.b64 [full+8], 1;
    @lead mbarrier.init.shared::cta.b64 [empty], r1;
    @lead mbarrier.init.shared::cta.b64 [empty+8], r1;"""
    stage = """    and.b32 stage, trip, 1;
    shl.b32 stage, stage, 3;
    shr.u32 parity, trip, 1;
    and.b32 parity, parity, 1;"""
    again = """    add.u32 trip, trip, 1;
    setp.lt.u32 more, trip, trips_left;"""
    loop = f"""    setp.lt.u32 more, thread, 32;
    @more bra PRODUCER;
    and.b32 r2, thread, 31;
    setp.eq.u32 lead, r2, 0;
CONSUMER:
{stage}
    add.u32 bar, full, stage;
{body.wait}
{body.operation}
{_loaded(body, loads)}
{_chain(work)}
    bar.warp.sync 0xffffffff;
    add.u32 bar, empty, stage;
    @lead mbarrier.arrive.shared::cta.b64 _, [bar];
{again}
    @more bra CONSUMER;
    bra JOIN;
PRODUCER:
{stage}
    xor.b32 parity, parity, 1;
    add.u32 bar, empty, stage;
{PLAIN_WAIT.replace("WAIT", "EMPTY")}
    add.u32 bar, full, stage;
    @lead mbarrier.arrive.shared::cta.b64 _, [bar];
{again}
    @more bra PRODUCER;
JOIN:"""
    declarations = (
        ".reg .b32 full, empty, stage;",
        ".shared .align 8 .b64 filled[2];",
        ".shared .align 8 .b64 emptied[2];",
    )
    return _framed(setup, loop, _USED, declarations)


def program(operation: Operation, body: Body, loads: int, stores: int, work: int = 0) -> str:
    """The PTX of one loop; the entry is ``loop(out, buffer, trips)``."""
    stored = "\n".join(f"    st.global.b32 [stored+{LINE * number}], trip;" for number in range(stores))
    setup = f"    @lead mbarrier.init.shared::cta.b64 [bar], {body.arrivals};"
    loop = f"""LOOP:
{body.meet}
{stored}
    {body.arrive}
    and.b32 parity, trip, 1;
{body.wait}
{body.before}
{body.operation}
{_loaded(body, loads)}
{_chain(work)}
{body.after}
    add.u32 trip, trip, 1;
    setp.lt.u32 more, trip, trips_left;
    @more bra LOOP;"""
    teardown = operation.teardown + ("\n" + _USED if work else "")
    return _framed(setup, loop, teardown, operation.declarations, operation.cluster, operation.setup)


def _framed(
    barriers: str,
    loop: str,
    teardown: str,
    declarations: tuple[str, ...],
    ctas: int = 1,
    setup: str = "",
) -> str:
    cluster = "" if ctas == 1 else f".explicitcluster .reqnctapercluster {ctas}\n"
    declared = "\n    ".join(declarations)
    return f"""{HEAD}
.visible .entry loop(.param .u64 out, .param .u64 buffer, .param .u32 trips)
{cluster}{{
    .reg .pred p, lead, more;
    .reg .b32 bar, thread, parity, trip, trips_left, sum, word, cta, staging, peer, size, r<8>;
    .reg .f32 value;
    .reg .b64 result, loaded, stored, wide, begin, passed, global, state, copied, rd<8>;
    .shared .align 8 .b64 barrier;
    .shared .align 1024 .b8 memory[65536];
    {declared}
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
    mov.f32 value, 0f3f800000;
    setp.eq.u32 lead, thread, 0;
{barriers}
    fence.mbarrier_init.release.cluster;
{setup}
    bar.sync 0;
    mov.u64 begin, %clock64;
{loop}
    mov.u64 passed, %clock64;
    sub.u64 passed, passed, begin;
{teardown}
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
    body = Body(operation=f"    {instruction};")
    return Operation(name, instruction, meaning, body, stores=stores, beside_work=Beside.SAME)


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
        beside_work=Beside.RING,
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
        beside_work=Beside.SAME,
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
    beside_work=Beside.SAME,
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
        beside_work=Beside.SAME,
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
        beside_work=Beside.SAME,
    ),
    Operation(
        "ld.relaxed.gpu",
        "ld.relaxed.gpu.global.b32",
        "a load that goes to L2, its value used at once",
        Body(
            operation="    ld.relaxed.gpu.global.b32 r0, [global];\n    add.u32 sum, sum, r0;\n"
            "    cvt.u64.u32 wide, sum;\n    add.u64 loaded, loaded, wide;"
        ),
        beside_work=Beside.SAME,
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
