"""Write a program as PTX: one entry, one warp (with wgmma: one warpgroup) per logical thread.

Lane 0 does what has an effect of its own (accesses, arrivals, asynchronous operations); barriers, fences
and waiting loops are executed by the whole warp, so that it stays converged.  Every lane waits in a loop,
hence so does lane 0.

The values that loads return are folded into a store to a place of the thread's own at the end, so that an
assembler keeps the loads.  In a cluster whose threads all use the cluster barrier equally often, a last
cluster barrier keeps shared memory alive; it orders nothing that comes before it.
"""

from dataclasses import dataclass, field

from . import program as op
from .program import EventId, Program

SCOPES = ("cta", "cluster", "gpu", "sys")
HEADER = """.version 9.0
.target sm_90a
.address_size 64

"""


@dataclass(frozen=True, slots=True)
class Rendering:
    """PTX text, and for each line (from 1) that stands for an instruction of the program, its name."""

    text: str
    lines: dict[int, EventId]


def to_ptx(program: Program) -> str:
    """The program as PTX for sm_90a; raises ProgramError."""
    return render(program).text


def render(program: Program) -> Rendering:
    """The program as PTX with its line map; raises ProgramError."""
    op.validate(program)
    return _Writer(program).run()


@dataclass(slots=True)
class _Writer:
    program: Program
    text: list[str] = field(default_factory=list)
    lines: dict[int, EventId] = field(default_factory=dict)
    here: EventId | None = None
    homes: dict[str, int | None] = field(default_factory=dict)
    wide: bool = False
    width: int = 32

    def run(self) -> Rendering:
        program = self.program
        self.homes = {place.name: place.cta for place in (*program.locations, *program.mbarriers)}
        code = [i for thread in program.threads for i in thread.instructions]
        self.wide = any(isinstance(i, op.Wgmma) for i in code)
        self.width = 128 if self.wide else self.width
        roles = [sum(thread.cta == cta for thread in program.threads) for cta in range(program.ctas)]
        self.text = HEADER.splitlines()
        self._line(".visible .entry oracle_program(.param .u64 memory)")
        self._line(f".reqntid {self.width * max(roles)}, 1, 1")
        self._line(f".reqnctapercluster {program.ctas}, 1, 1")
        self._line("{")
        self._declare()
        self._dispatch()
        join = self._joins()
        for number, thread in enumerate(program.threads):
            self._line(f"T{number}:")
            for position, instruction in enumerate(thread.instructions):
                self.here = (number, position)
                self._instruction(instruction, thread.cta)
            self.here = None
            sink = 16 * len(program.locations) + 4 * number
            self._line(f"    @%p0 st.global.u32 [%rd0+{sink}], %r3;")
            self._line("    bra DONE;")
        self._line("DONE:")
        if join:
            self._line("    barrier.cluster.arrive.release.aligned;")
            self._line("    barrier.cluster.wait.acquire.aligned;")
        self._line("    ret;")
        self._line("}")
        return Rendering("\n".join(self.text) + "\n", self.lines)

    def _line(self, text: str) -> None:
        self.text.append(text)
        if self.here is not None:
            self.lines[len(self.text)] = self.here

    def _declare(self) -> None:
        for declaration in (".pred %p<4>", ".b32 %r<16>", ".b64 %rd<8>", ".f32 %f<4>"):
            self._line(f"    .reg {declaration};")
        size = 4096 if self.wide else op.BYTES
        for place in self.program.locations:
            if place.cta is not None:
                self._line(f"    .shared .align 128 .b8 data_{place.name}[{size}];")
        for place in self.program.mbarriers:
            self._line(f"    .shared .align 8 .b64 mbarrier_{place.name};")

    def _dispatch(self) -> None:
        self._line("    ld.param.u64 %rd0, [memory];")
        self._line("    cvta.to.global.u64 %rd0, %rd0;")
        self._line("    mov.u32 %r0, %tid.x;")
        self._line(f"    shr.u32 %r1, %r0, {self.width.bit_length() - 1};")
        self._line(f"    and.b32 %r2, %r0, {self.width - 1};")
        self._line("    setp.eq.u32 %p0, %r2, 0;")
        self._line("    mov.u32 %r3, 0;")
        self._line("    setp.ne.u32 %p3, %r2, %r2;")
        self._line("    mov.u32 %r4, %cluster_ctarank;" if self.program.ctas > 1 else "    mov.u32 %r4, 0;")
        seen: dict[int, int] = {}
        for number, thread in enumerate(self.program.threads):
            warp = seen.get(thread.cta, 0)
            seen[thread.cta] = warp + 1
            self._line(f"    setp.eq.u32 %p1, %r4, {thread.cta};")
            self._line(f"    setp.eq.and.u32 %p1, %r1, {warp}, %p1;")
            self._line(f"    @%p1 bra T{number};")
        self._line("    bra DONE;")

    def _joins(self) -> bool:
        uses = {
            tuple(
                sum(isinstance(i, kind) for i in thread.instructions)
                for kind in (op.ClusterArrive, op.ClusterWait)
            )
            for thread in self.program.threads
        }
        return self.program.ctas > 1 and len(uses) == 1 and all(a == w for a, w in uses)

    def _address(self, name: str, cta: int, register: int, cluster: bool = False) -> tuple[str, str]:
        """State space and address operand of a name, as seen from a CTA (with `cluster`: mapped)."""
        home = self.homes[name]
        if home is None:
            names = [place.name for place in self.program.locations]
            return "global", f"[%rd0+{op.BYTES * names.index(name)}]"
        mbarriers = {place.name for place in self.program.mbarriers}
        symbol = f"mbarrier_{name}" if name in mbarriers else f"data_{name}"
        if home == cta and not cluster:
            return "shared::cta", f"[{symbol}]"
        self._line(f"    mov.u32 %r{register}, {symbol};")
        self._line(f"    mapa.shared::cluster.u32 %r{register}, %r{register}, {home};")
        return "shared::cluster", f"[%r{register}]"

    def _instruction(self, instruction: op.Instruction, cta: int) -> None:
        match instruction:
            case op.Load(location, semantics, scope):
                space, address = self._address(location, cta, 8)
                self._line(f"    @%p0 ld{_order(semantics, scope)}.{space}.u32 %r5, {address};")
                self._line("    @%p0 xor.b32 %r3, %r3, %r5;")
            case op.Store(location, semantics, scope, value):
                space, address = self._address(location, cta, 8)
                self._line(f"    @%p0 st{_order(semantics, scope)}.{space}.u32 {address}, {value};")
            case op.Atomic(location, semantics, scope, add):
                space, address = self._address(location, cta, 8)
                self._line(f"    @%p0 atom{_order(semantics, scope)}.{space}.add.u32 %r5, {address}, {add};")
                self._line("    @%p0 xor.b32 %r3, %r3, %r5;")
            case op.AwaitFlag(location, value, semantics, scope):
                space, address = self._address(location, cta, 8)
                read = f"ld{_order(semantics, scope)}.{space}.u32 %r5, {address};"
                self._loop(read, f"setp.eq.u32 %p2, %r5, {value};")
            case op.MbarrierWait(name, parity, semantics, scope):
                order = f"{semantics}.{SCOPES[scope]}"
                self._loop(
                    f"mbarrier.try_wait.parity.{order}.shared::cta.b64 %p2, [mbarrier_{name}], {parity};"
                )
            case op.BarrierSync(identifier, count, aligned) | op.BarrierArrive(identifier, count, aligned):
                kind = "sync" if isinstance(instruction, op.BarrierSync) else "arrive"
                name = "bar" if aligned else "barrier"
                self._line(f"    {name}.{kind} {identifier}, {count * self.width};")
            case op.ClusterArrive(semantics):
                self._line(f"    barrier.cluster.arrive.{semantics}.aligned;")
            case op.ClusterWait():
                self._line("    barrier.cluster.wait.acquire.aligned;")
            case op.Fence(semantics, scope, restrict):
                limit = f".sync_restrict::{restrict}" if restrict else ""
                self._line(f"    fence.{semantics}{limit}.{SCOPES[scope]};")
            case op.MbarrierInitFence():
                self._line("    fence.mbarrier_init.release.cluster;")
            case op.ProxyFence(_, True):
                self._line("    fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;")
            case op.ProxyFence(limit_space, _):
                self._line(f"    fence.proxy.async{'.' + limit_space if limit_space else ''};")
            case op.Wgmma(sources):
                self._wgmma(sources)
            case op.WgmmaCommit():
                self._line("    wgmma.commit_group.sync.aligned;")
            case op.WgmmaWait(pending):
                self._line(f"    wgmma.wait_group.sync.aligned {pending};")
            case _:
                self._lane(instruction, cta)

    def _lane(self, instruction: op.Instruction, cta: int) -> None:
        """What lane 0 does alone: mbarrier operations, asynchronous operations and their groups."""
        match instruction:
            case op.MbarrierInit(name, count):
                text = f"mbarrier.init.shared::cta.b64 [mbarrier_{name}], {count};"
            case op.MbarrierArrive(name, count, expect, semantics, scope):
                space, address = self._address(name, cta, 8)
                kind, operand = (".expect_tx", expect) if expect else ("", count)
                order = f"{semantics}.{SCOPES[scope]}.{space}"
                text = f"mbarrier.arrive{kind}.{order}.b64 _, {address}, {operand};"
            case op.MbarrierExpectTx(name, transactions):
                space, address = self._address(name, cta, 8)
                text = f"mbarrier.expect_tx.relaxed.cta.{space}.b64 {address}, {transactions};"
            case op.BulkCopy(source, target, None):
                _, from_ = self._address(source, cta, 8)
                _, to = self._address(target, cta, 9)
                text = f"cp.async.bulk.global.shared::cta.bulk_group {to}, {from_}, {op.BYTES};"
            case op.BulkCopy(source, target, str(mbarrier)):
                space, from_ = self._address(source, cta, 8)
                _, to = self._address(target, cta, 9, cluster=True)
                _, signal = self._address(mbarrier, cta, 10, cluster=True)
                path = f"shared::cluster.{space}.mbarrier::complete_tx::bytes"
                text = f"cp.async.bulk.{path} {to}, {from_}, {op.BYTES}, {signal};"
            case op.BulkCommit():
                text = "cp.async.bulk.commit_group;"
            case op.BulkWait(pending, read):
                text = f"cp.async.bulk.wait_group{'.read' if read else ''} {pending};"
            case op.CpAsync(source, target):
                _, from_ = self._address(source, cta, 8)
                text = f"cp.async.cg.shared.global [data_{target}], {from_}, {op.BYTES};"
            case op.CpAsyncCommit():
                text = "cp.async.commit_group;"
            case op.CpAsyncWait(pending):
                text = f"cp.async.wait_group {pending};"
            case op.CpAsyncMbarrierArrive(name):
                text = f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [mbarrier_{name}];"
            case op.StoreAsync(target, mbarrier):
                _, to = self._address(target, cta, 9, cluster=True)
                _, signal = self._address(mbarrier, cta, 10, cluster=True)
                kind = "weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"
                text = f"st.async.{kind} {to}, {{%r0, %r0, %r0, %r0}}, {signal};"
            case _:
                raise op.ProgramError(f"no PTX for {instruction!r}")
        # Groups belong to the thread that issued the copies, so lane 0 alone commits and waits.
        self._line(f"    @%p0 {text}")

    def _loop(self, *body: str) -> None:
        assert self.here is not None
        label = f"L{self.here[0]}_{self.here[1]}"
        self._line(f"{label}:")
        for text in body:
            self._line(f"    {text}")
        self._line(f"    @!%p2 bra {label};")

    def _wgmma(self, sources: tuple[str, ...]) -> None:
        for register, name in ((1, sources[0]), (2, sources[-1])):
            self._line(f"    mov.u32 %r8, data_{name};")
            self._line("    and.b32 %r8, %r8, 262143;")
            self._line("    shr.u32 %r8, %r8, 4;")
            self._line(f"    cvt.u64.u32 %rd{register}, %r8;")
        self._line("    wgmma.fence.sync.aligned;")
        shape = "m64n8k16.f32.bf16.bf16"
        self._line(
            f"    wgmma.mma_async.sync.aligned.{shape} {{%f0, %f1, %f2, %f3}}, %rd1, %rd2, %p3, 1, 1, 0, 0;"
        )


def _order(semantics: str, scope: int) -> str:
    return "" if semantics == "weak" else f".{semantics}.{SCOPES[scope]}"
