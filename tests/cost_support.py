"""Small kernels in PTX, and measurements whose numbers are easy to follow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.cost.budget import budget_by
from ptxaudit.cost.table import Circumstances, Estimate, Provenance
from ptxaudit.engine.inputs import load_module
from ptxaudit.rules.budget import Budget, LoopCost

# Cycles of an operation by itself, for each load that it makes miss, for each store in flight.
MEASURED = {
    "mbarrier.wait.acquire.cta": (0, 0, 0),
    "mbarrier.wait.acquire.cluster": (0, 200, 0),
    "mbarrier.wait.relaxed.cluster": (0, 0, 0),
    "mbarrier.arrive.release.cta": (0, 0, 0),
    "mbarrier.arrive.release.cluster": (300, 0, 20),
    "fence.acquire.sync_restrict::shared::cluster.cluster": (1, 0, 0),
    "fence.acq_rel.gpu": (280, 300, 20),
    "fence.sc.gpu": (500, 300, 20),
    "fence.proxy.async.shared::cta": (20, 0, 0),
    "fence.proxy.async": (290, 0, 20),
    "barrier.cta": (30, 0, 0),
    "barrier.cluster.relaxed": (190, 200, 0),
    "barrier.cluster.release": (480, 200, 20),
    "bulk.wait.read": (450, 0, 0),
    "cp.async.wait": (10, 0, 0),
    "wgmma.wait.0": (60, 0, 0),
    "wgmma.wait.1": (5, 0, 0),
    "l1.invalidate": (3, 200, 0),
    "ld.acquire.gpu": (500, 200, 0),
    "membar.gpu": (250, 0, 20),
}

PROVENANCE = Provenance("sm_90a", "a device", "1.0", "ptxas", "none", "2026-01-01", "made up")


@dataclass(frozen=True, slots=True)
class FakeTable:
    """Costs that grow by as much for each load and each store; a tenth of each is uncertain."""

    cycles: Mapping[str, tuple[int, int, int]] = field(default_factory=lambda: MEASURED)
    provenance: Provenance = PROVENANCE

    def estimate(self, operation: str, circumstances: Circumstances) -> Estimate | None:
        if operation not in self.cycles:
            return None
        alone, load, store = self.cycles[operation]
        value = float(alone + load * circumstances.loads + store * circumstances.stores)
        return Estimate(value, 0.9 * value, 1.1 * value, False, circumstances.loads > 8)


def kernel(body: str, target: str = "sm_90a", threads: int | None = 128) -> FunctionAnalysis:
    """A kernel of this body: %rd1 is a pointer, %r10 an mbarrier, %r2 a number of trips, %p1 one thread."""
    stated = "" if threads is None else f".reqntid {threads}, 1, 1"
    text = f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k (.param .u64 out, .param .u32 trips)
{stated}
{{
    .reg .pred %p<10>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<10>;
    .shared .align 8 .b64 full[2];
    mov.u32 %r10, full;
    mov.u32 %r3, 0;
    mov.u32 %r6, 0;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    ld.param.u32 %r2, [trips];
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, %rd1;
{body}
    ret;
}}
"""
    return of(load_module("k.ptx", text.encode()).functions[0].name, "k.ptx", text.encode())


def of(name: str, file: str, data: bytes) -> FunctionAnalysis:
    """The analysis of a function in a PTX text or a cubin."""
    module = load_module(file, data)
    return FunctionAnalysis(next(one for one in module.functions if one.name == name), module)


def of_file(path: Path) -> FunctionAnalysis:
    """The analysis of the first function of a file."""
    module = load_module(path.name, path.read_bytes())
    return FunctionAnalysis(module.functions[0], module)


def repeated(body: str, name: str = "TRIP", counter: str = "%r6") -> str:
    """A loop over a body."""
    return f"""
{name}:
{body}
    add.u32 {counter}, {counter}, 1;
    setp.lt.u32 %p3, {counter}, %r2;
    @%p3 bra {name};
"""


def wait(form: str, label: str = "W") -> str:
    """A polling loop for an mbarrier."""
    return (
        f"{label}: mbarrier.try_wait.parity.{form}.shared::cta.b64 %p2, [%r10], %r3;\n    @!%p2 bra {label};"
    )


def priced(analysis: FunctionAnalysis) -> Budget:
    """The budget by the made-up measurements."""
    return budget_by(analysis, FakeTable(), None)


def only_loop(analysis: FunctionAnalysis) -> LoopCost:
    """The one loop of a kernel that does more than poll."""
    (loop,) = priced(analysis).loops
    return loop
