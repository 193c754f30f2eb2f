"""Loops that the table was not made from, in two forms each, to compare predicted with measured cycles.

They are shaped as kernels are: rings with a producer warp, results stored and handed over, flags polled,
clusters, tensor core pipelines, with other numbers of warps, loads and stores than the table's. The entry is
``loop(out, buffer, trips)`` as in :mod:`programs`; a form may be part of several pairs. ``LATER`` are pairs
of the same shapes with other numbers, which neither ``EARLIER`` nor the table has and nobody looked at until
the model was done, so that nothing is fitted to them.
"""

from dataclasses import dataclass

from programs import CTA_BYTES, HEAD, LINE, LOADED_BYTES

TWO_STAGES = 2
_USE_OF_WORK = "    cvt.rzi.u32.f32 x, value;\n    and.b32 x, x, 1;\n    add.u32 sum, sum, x;"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loop: its PTX, the threads of its CTA and the CTAs of its cluster."""

    name: str
    text: str
    threads: int
    cluster: int = 1


@dataclass(frozen=True, slots=True)
class Pair:
    """Two forms of one loop, the one that should cost more first."""

    dear: Kernel
    cheap: Kernel

    @property
    def name(self) -> str:
        """What tells the pair from others."""
        return f"{self.dear.name} / {self.cheap.name}"


def _frame(threads: int, setup: str, loop: str, teardown: str = "", cluster: int = 1, more: str = "") -> str:
    dimensions = "" if cluster == 1 else f".explicitcluster .reqnctapercluster {cluster}\n"
    return f"""{HEAD}
.visible .entry loop(.param .u64 out, .param .u64 buffer, .param .u32 trips)
.reqntid {threads}
{dimensions}{{
    .reg .pred done, lead, leader, again;
    .reg .b32 thread, lane, cta, turn, end, phase, stage, full, empty, place, sum, word, x, y;
    .reg .f32 value, acc<128>;
    .reg .b64 result, input, output, base, wide, from, to, start, took, matrix;
    .shared .align 8 .b64 filled[{TWO_STAGES}];
    .shared .align 8 .b64 emptied[{TWO_STAGES}];
    .shared .align 1024 .b8 tiles[32768];
    {more}
    ld.param.u64 result, [out];
    ld.param.u64 base, [buffer];
    ld.param.u32 end, [trips];
    cvta.to.global.u64 result, result;
    cvta.to.global.u64 base, base;
    mov.u32 thread, %tid.x;
    and.b32 lane, thread, 31;
    mov.u32 cta, %ctaid.x;
    mul.wide.u32 wide, cta, {CTA_BYTES};
    add.u64 base, base, wide;
    mul.wide.u32 wide, thread, 4;
    add.u64 input, base, wide;
    add.u64 output, input, {LOADED_BYTES};
    mov.u32 turn, 0;
    mov.u32 sum, 0;
    mov.f32 value, 0f3f800000;
    setp.eq.u32 leader, thread, 0;
    setp.eq.u32 lead, lane, 0;
{setup}
    bar.sync 0;
    mov.u64 start, %clock64;
{loop}
    mov.u64 took, %clock64;
    sub.u64 took, took, start;
{teardown}
    mul.lo.u32 x, cta, {threads};
    add.u32 x, x, thread;
    mul.wide.u32 wide, x, 8;
    add.u64 result, result, wide;
    cvt.u64.u32 wide, sum;
    add.u64 took, took, wide;
    st.global.u64 [result], took;
    ret;
}}
"""


def _loads(count: int) -> str:
    lines = [
        f"    ld.global.b32 word, [input+{LINE * number}];\n    add.u32 sum, sum, word;"
        for number in range(count)
    ]
    follow = ["    cvt.u64.u32 wide, sum;\n    add.u64 input, input, wide;"] if count else []
    return "\n".join(lines + follow)


def _stores(count: int) -> str:
    return "\n".join(f"    st.global.b32 [output+{LINE * number}], turn;" for number in range(count))


def _work(count: int) -> str:
    return "    fma.rn.f32 value, value, value, value;\n" * count


_WAITS = {
    "cta": ("", ""),
    "acquire.cluster": (".acquire.cluster", ""),
    "restricted": (
        ".relaxed.cluster",
        "    fence.acquire.sync_restrict::shared::cluster.cluster;",
    ),
    "relaxed+fence.cluster": (".relaxed.cluster", "    fence.acq_rel.cluster;"),
    "relaxed+fence.sys": (".relaxed.cluster", "    fence.acq_rel.sys;"),
}


def _ring(form: str, warps: int, loads: int, work: int, staged: bool = False) -> Kernel:
    """A producer warp fills two stages; all other warps wait, load, compute and give the stage back.

    What is computed needs nothing that is waited for, or with ``staged`` a word of shared memory.
    """
    modifiers, fence = _WAITS[form]
    threads = 32 * (warps + 1)
    staging = "    mov.u32 y, tiles;\n    st.shared.f32 [y], 0f00000000;\n" if staged else ""
    read = "    ld.shared.f32 acc0, [y];\n    add.f32 value, value, acc0;\n" if staged else ""
    setup = f"""{staging}    @leader mbarrier.init.shared::cta.b64 [filled], 1;
    @leader mbarrier.init.shared::cta.b64 [filled+8], 1;
    @leader mbarrier.init.shared::cta.b64 [emptied], {warps};
    @leader mbarrier.init.shared::cta.b64 [emptied+8], {warps};
    fence.mbarrier_init.release.cluster;"""
    loop = f"""    setp.lt.u32 again, thread, 32;
    @again bra PRODUCER;
CONSUMER:
    and.b32 stage, turn, 1;
    shr.u32 phase, turn, 1;
    and.b32 phase, phase, 1;
    shl.b32 place, stage, 3;
    mov.u32 full, filled;
    add.u32 full, full, place;
    mov.u32 empty, emptied;
    add.u32 empty, empty, place;
FULL:
    mbarrier.try_wait.parity{modifiers}.shared::cta.b64 done, [full], phase;
    @!done bra FULL;
{fence}
{_loads(loads)}
{read}{_work(work)}
    bar.warp.sync 0xffffffff;
    @lead mbarrier.arrive.shared::cta.b64 _, [empty];
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra CONSUMER;
    bra JOIN;
PRODUCER:
    and.b32 stage, turn, 1;
    shr.u32 phase, turn, 1;
    and.b32 phase, phase, 1;
    xor.b32 phase, phase, 1;
    shl.b32 place, stage, 3;
    mov.u32 full, filled;
    add.u32 full, full, place;
    mov.u32 empty, emptied;
    add.u32 empty, empty, place;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 done, [empty], phase;
    @!done bra EMPTY;
    @leader mbarrier.arrive.shared::cta.b64 _, [full];
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra PRODUCER;
JOIN:"""
    teardown = _USE_OF_WORK
    name = f"ring.{form}.{warps}w.{loads}ld.{work}fma{'.staged' if staged else ''}"
    return Kernel(name, _frame(threads, setup, loop, teardown), threads)


def _handover(form: str, between: str, threads: int, stores: int, loads: int, work: int = 16) -> Kernel:
    """Every thread stores results; something orders them; the CTA meets and one thread counts it done."""
    loop = f"""STEP:
{_loads(loads)}
{_work(work)}
{_stores(stores)}
{between}
    bar.sync 0;
    @leader red.relaxed.gpu.global.add.u32 [base+{LOADED_BYTES - 4}], 0;
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    teardown = _USE_OF_WORK
    name = f"handover.{form}.{threads}t.{stores}st.{loads}ld"
    return Kernel(name, _frame(threads, "", loop, teardown), threads)


def _flag(form: str, read: str, after: str, threads: int, loads: int) -> Kernel:
    """Every thread reads a flag that is set, and then data that stays in L1."""
    loop = f"""STEP:
    bar.sync 0;
POLL:
    {read} word, [base+{LOADED_BYTES - 4}];
    setp.ne.u32 done, word, 0;
    @done bra POLL;
{after}
{_loads(loads)}
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    return Kernel(f"flag.{form}.{threads}t.{loads}ld", _frame(threads, "", loop), threads)


def _tile(form: str, fence: str, threads: int, stores: int) -> Kernel:
    """A tile is written to shared memory for the async proxy, beside results in global memory."""
    setup = "    mov.u32 place, tiles;\n    shl.b32 x, thread, 4;\n    add.u32 place, place, x;"
    loop = f"""STEP:
{_stores(stores)}
    st.shared.v4.b32 [place], {{turn, turn, turn, turn}};
{fence}
    bar.sync 0;
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    return Kernel(f"tile.{form}.{threads}t.{stores}st", _frame(threads, setup, loop), threads)


def _cluster(form: str, threads: int, stores: int, loads: int) -> Kernel:
    """Two CTAs meet after they stored results."""
    loop = f"""STEP:
{_stores(stores)}
    barrier.cluster.arrive.{form}.aligned;
{_work(8)}
    barrier.cluster.wait.acquire.aligned;
{_loads(loads)}
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    name = f"cluster.{form}.{threads}t.{stores}st.{loads}ld"
    return Kernel(name, _frame(threads, "", loop, cluster=2), threads, 2)


def _everyone_arrives(form: str, threads: int, stores: int, loads: int) -> Kernel:
    """All threads arrive on an mbarrier after stores, and wait for it."""
    setup = (
        f"    @leader mbarrier.init.shared::cta.b64 [filled], {threads};\n"
        "    fence.mbarrier_init.release.cluster;"
    )
    loop = f"""STEP:
{_stores(stores)}
    mbarrier.arrive{form}.shared::cta.b64 _, [filled];
    and.b32 phase, turn, 1;
MET:
    mbarrier.try_wait.parity.shared::cta.b64 done, [filled], phase;
    @!done bra MET;
{_loads(loads)}
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    name = f"arrive{form or '.default'}.{threads}t.{stores}st.{loads}ld"
    return Kernel(name, _frame(threads, setup, loop), threads)


def _products(depth: int, threads: int, products: int, columns: int) -> Kernel:
    """A tensor core pipeline: a group of products an iteration, then a wait to ``depth``."""
    count = columns // 2
    accumulators = ", ".join(f"acc{number}" for number in range(count))
    product = (
        f"    wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 "
        f"{{{accumulators}}}, matrix, matrix, 1, 1, 1, 0, 0;\n"
    )
    zeroed = "\n".join(f"    mov.f32 acc{number}, 0f00000000;" for number in range(count))
    setup = f"""    mov.u32 x, tiles;
    shr.u32 x, x, 4;
    and.b32 x, x, 0x3fff;
    cvt.u64.u32 matrix, x;
    or.b64 matrix, matrix, 0x0000001000080000;
{zeroed}
    wgmma.fence.sync.aligned;"""
    loop = f"""STEP:
    bar.sync 0;
{product * products}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned {depth};
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    teardown = "    wgmma.wait_group.sync.aligned 0;\n    cvt.rzi.u32.f32 x, acc0;\n    add.u32 sum, sum, x;"
    name = f"wgmma.wait{depth}.{threads}t.{products}xn{columns}"
    return Kernel(name, _frame(threads, setup, loop, teardown), threads)


def _bulk(form: str, size: int) -> Kernel:
    """A tile is stored in bulk every iteration, and its buffer is waited for."""
    loop = f"""STEP:
    bar.sync 0;
    @!leader bra SKIP;
    cp.async.bulk.global.shared::cta.bulk_group [base+{LOADED_BYTES}], [tiles], {size};
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group{form};
SKIP:
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    teardown = "    cp.async.bulk.wait_group 0;"
    return Kernel(f"bulk.wait{form.replace(' ', '')}.{size}B", _frame(192, "", loop, teardown), 192)


def _copies(depth: int, threads: int) -> Kernel:
    """A double-buffered cp.async pipeline."""
    setup = """    mov.u32 place, tiles;
    shl.b32 x, thread, 4;
    add.u32 place, place, x;
    mul.wide.u32 wide, thread, 12;
    add.u64 from, input, wide;"""
    loop = f"""STEP:
    and.b32 stage, turn, 1;
    shl.b32 x, stage, 14;
    add.u32 x, x, place;
    cp.async.cg.shared.global [x], [from], 16;
    cp.async.commit_group;
    cp.async.wait_group {depth};
    bar.sync 0;
    ld.shared.b32 word, [place];
    add.u32 sum, sum, word;
{_work(32)}
    add.u32 turn, turn, 1;
    setp.lt.u32 again, turn, end;
    @again bra STEP;"""
    teardown = "    cp.async.wait_all;\n" + _USE_OF_WORK
    return Kernel(f"copies.wait{depth}.{threads}t", _frame(threads, setup, loop, teardown), threads)


def _ring_pairs(warps: int, loads: int, work: int, staged: bool = False) -> list[Pair]:
    forms = {form: _ring(form, warps, loads, work, staged) for form in _WAITS}
    return [
        Pair(forms["acquire.cluster"], forms["cta"]),
        Pair(forms["acquire.cluster"], forms["restricted"]),
        Pair(forms["relaxed+fence.cluster"], forms["restricted"]),
        Pair(forms["relaxed+fence.sys"], forms["relaxed+fence.cluster"]),
    ]


def _handover_pairs(threads: int, stores: int, loads: int) -> list[Pair]:
    names = ("none", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.sc.gpu", "fence.acq_rel.sys")
    forms = {
        name: _handover(name, f"    {name};" if name != "none" else "", threads, stores, loads)
        for name in names
    }
    twice = _handover("fence.acq_rel.gpu twice", "    fence.acq_rel.gpu;\n" * 2, threads, stores, loads)
    return [
        Pair(forms["fence.acq_rel.gpu"], forms["fence.acq_rel.cta"]),
        Pair(forms["fence.sc.gpu"], forms["fence.acq_rel.gpu"]),
        Pair(forms["fence.acq_rel.sys"], forms["fence.acq_rel.gpu"]),
        Pair(twice, forms["fence.acq_rel.gpu"]),
        Pair(_handover("bar.sync twice", "    bar.sync 0;", threads, stores, loads), forms["none"]),
    ]


def _flag_pairs(threads: int, loads: int) -> list[Pair]:
    acquire = _flag("acquire", "ld.acquire.gpu.global.b32", "", threads, loads)
    relaxed = _flag("relaxed", "ld.relaxed.gpu.global.b32", "", threads, loads)
    fenced = _flag("relaxed+fence", "ld.relaxed.gpu.global.b32", "    fence.acq_rel.gpu;", threads, loads)
    return [Pair(acquire, relaxed), Pair(fenced, acquire)]


def _tile_pair(threads: int, stores: int) -> Pair:
    return Pair(
        _tile("fence.proxy.async", "    fence.proxy.async;", threads, stores),
        _tile("fence.proxy.async.shared", "    fence.proxy.async.shared::cta;", threads, stores),
    )


def _cluster_pair(threads: int, stores: int, loads: int) -> Pair:
    return Pair(_cluster("release", threads, stores, loads), _cluster("relaxed", threads, stores, loads))


def _arrival_pair(threads: int, stores: int, loads: int) -> Pair:
    wide = _everyone_arrives(".release.cluster", threads, stores, loads)
    return Pair(wide, _everyone_arrives("", threads, stores, loads))


def _products_pair(threads: int, products: int, columns: int) -> Pair:
    return Pair(_products(0, threads, products, columns), _products(1, threads, products, columns))


def _bulk_pair(size: int) -> Pair:
    return Pair(_bulk(" 0", size), _bulk(".read 0", size))


def _copies_pair(threads: int) -> Pair:
    return Pair(_copies(0, threads), _copies(1, threads))


EARLIER: tuple[Pair, ...] = (
    *_ring_pairs(2, 1, 4),
    *_ring_pairs(3, 3, 16),
    *_ring_pairs(8, 6, 8),
    *_ring_pairs(11, 2, 32),
    *_ring_pairs(4, 0, 16),
    *_handover_pairs(96, 3, 0),
    *_handover_pairs(192, 1, 2),
    *_handover_pairs(384, 2, 0),
    *_flag_pairs(64, 1),
    *_flag_pairs(160, 3),
    *_flag_pairs(320, 6),
    _tile_pair(96, 0),
    _tile_pair(192, 3),
    _tile_pair(256, 1),
    _cluster_pair(96, 0, 0),
    _cluster_pair(192, 3, 0),
    _cluster_pair(320, 1, 2),
    _arrival_pair(96, 1, 0),
    _arrival_pair(192, 3, 0),
    _arrival_pair(320, 0, 2),
    _products_pair(128, 4, 256),
    _products_pair(256, 3, 64),
    _products_pair(128, 1, 64),
    _products_pair(384, 2, 192),
    _bulk_pair(4096),
    _bulk_pair(1024),
    _copies_pair(96),
    _copies_pair(192),
)
LATER: tuple[Pair, ...] = (
    *_ring_pairs(6, 0, 10),
    *_ring_pairs(13, 0, 40),
    *_ring_pairs(2, 0, 64),
    *_ring_pairs(7, 1, 20),
    *_ring_pairs(9, 4, 60),
    *_ring_pairs(6, 2, 3),
    *_ring_pairs(4, 0, 30, staged=True),
    *_ring_pairs(3, 2, 14, staged=True),
    *_handover_pairs(64, 2, 1),
    *_handover_pairs(224, 0, 3),
    *_handover_pairs(448, 1, 0),
    *_flag_pairs(96, 2),
    *_flag_pairs(224, 5),
    _tile_pair(64, 1),
    _tile_pair(160, 2),
    _cluster_pair(160, 1, 0),
    _cluster_pair(224, 0, 3),
    _arrival_pair(160, 2, 0),
    _arrival_pair(64, 0, 1),
    _products_pair(128, 2, 160),
    _products_pair(256, 1, 96),
    _bulk_pair(2048),
    _copies_pair(160),
)
# Forms that a rule proposes and none of the pairs above has.
PROPOSED: tuple[Pair, ...] = tuple(
    Pair(
        _flag("acquire", "ld.acquire.gpu.global.b32", "", threads, loads),
        _flag("relaxed+acquire", "ld.relaxed.gpu.global.b32", "    fence.acquire.gpu;", threads, loads),
    )
    for threads, loads in ((64, 1), (96, 2), (320, 6))
)
PAIRS = EARLIER + LATER + PROPOSED
KERNELS = {kernel.name: kernel for pair in PAIRS for kernel in (pair.dear, pair.cheap)}
