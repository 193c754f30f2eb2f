"""Cost of the order engine: ``order_engine.py [DIRECTORY] [--match fa4] [--no-growth]``.

For every PTX file and cubin below the directory, one line a kernel: instructions, warps, executions and
entries of the exploration, processor seconds of it, and the peak memory of a process that does only that.
Then the growth of one execution and its race search on a generated ring of stages (a producer warp that
copies, consumer warps that read): with the consumer warps, the stages, and the times round the loops.
Processor time, so that a busy machine tells the same.
"""

import argparse
import resource
import subprocess
import sys
from pathlib import Path
from time import process_time

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import order_of
from ptxaudit.analysis.order.machine import Bounds, LaunchShape, Machine
from ptxaudit.analysis.order.program import compile_program
from ptxaudit.analysis.order.races import RaceFinder
from ptxaudit.engine.inputs import load_module

WARPS = (1, 2, 4, 8, 16)
STAGES = (2, 3, 4, 6, 8)
ITERATIONS = (3, 6, 9, 12)
STAGE_BYTES = 1024


def main() -> None:
    """Measure the kernels of a directory, each in a process of its own, then the growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--match", default="")
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        explore_kernels(arguments.one)
        return
    if arguments.directory is not None:
        print("instructions warps executions entries processor  memory  kernel", flush=True)
        for path in sorted(arguments.directory.rglob("*")):
            if path.suffix in (".ptx", ".cubin") and arguments.match in path.name:
                subprocess.run([sys.executable, __file__, "--one", path], check=True)
    if not arguments.no_growth:
        grow()


def explore_kernels(path: Path) -> None:
    """One line for each kernel of a file; the peak memory is the process's up to then."""
    module = load_module(path.name, path.read_bytes())
    for function in module.functions:
        if not function.is_entry:
            continue
        analysis = FunctionAnalysis(function, module)
        start = process_time()
        report = order_of(analysis)
        seconds = process_time() - start
        warps = max((len(execution.warps) for execution in report.executions), default=0)
        entries = sum(len(execution.entries) for execution in report.executions)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{len(function.instructions):12d} {warps:5d} {len(report.executions):10d} {entries:7d}"
            f" {seconds:8.2f}s {peak:4.0f}MiB  {path.name} {function.name[:40]}",
            flush=True,
        )


def grow() -> None:
    """Print one execution's cost as one number of the ring grows, the others as they are in the middle."""
    for warps in WARPS:
        report(f"warps {warps:2d}", warps, 4, 6)
    for stages in STAGES:
        report(f"stages {stages:2d}", 4, stages, 6)
    for iterations in ITERATIONS:
        report(f"iterations {iterations:2d}", 4, 4, iterations)


def report(label: str, warps: int, stages: int, iterations: int) -> None:
    """Execute the ring once and search the execution for races; the ring has none."""
    module = load_module("ring.ptx", ring(warps, stages).encode())
    program = compile_program(FunctionAnalysis(module.functions[0], module))
    shape = LaunchShape((32 * (warps + 1), 1, 1), (1, 1, 1))
    start = process_time()
    execution = Machine(program, shape, Bounds(default_iterations=iterations)).run()
    executed = process_time()
    found = RaceFinder(execution).run()
    searched = process_time()
    state = "complete" if execution.complete else "not complete"
    print(
        f"{label:14s} {len(execution.entries):6d} entries  execution {executed - start:6.3f}s"
        f"  search {searched - executed:6.3f}s  {state}, {len(found.races)} races",
        flush=True,
    )


def ring(warps: int, stages: int) -> str:
    """PTX of a ring: warp 0 fills stages by bulk copies, ``warps`` others read each and release it."""
    inits = "".join(
        f"  mbarrier.init.shared.b64 [full+{8 * stage}], 1;\n"
        f"  mbarrier.init.shared.b64 [empty+{8 * stage}], {warps};\n"
        for stage in range(stages)
    )
    advance = f"""
  add.u32 %stage, %stage, 1;
  setp.eq.u32 %last, %stage, {stages};
  @%last mov.u32 %stage, 0;
  @%last xor.b32 %parity, %parity, 1;
  add.u32 %round, %round, 1;
  setp.lt.u32 %more, %round, %count;
"""
    places = f"""
  shl.b32 %offset, %stage, 3;
  add.u32 %filled, %fulls, %offset;
  add.u32 %freed, %empties, %offset;
  mad.lo.u32 %place, %stage, {STAGE_BYTES}, %buffers;
"""
    return f"""\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 source, .param .u32 rounds)
.reqntid {32 * (warps + 1)}, 1, 1
{{
  .shared .align 128 .b8 buffer[{stages * STAGE_BYTES}];
  .shared .align 8 .b8 full[{8 * stages}];
  .shared .align 8 .b8 empty[{8 * stages}];
  .reg .pred %first, %last, %more, %done, %producer;
  .reg .b32 %thread, %warp, %lane, %stage, %parity, %round, %count, %word;
  .reg .b32 %fulls, %empties, %buffers, %offset, %filled, %freed, %place;
  .reg .b64 %from;
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %first, %thread, 0;
  @%first bra READY;
{inits}  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  ld.param.u64 %from, [source];
  ld.param.u32 %count, [rounds];
  mov.u32 %fulls, full;
  mov.u32 %empties, empty;
  mov.u32 %buffers, buffer;
  mov.u32 %stage, 0;
  mov.u32 %round, 0;
  shr.u32 %warp, %thread, 5;
  and.b32 %lane, %thread, 31;
  setp.ne.u32 %producer, %warp, 0;
  @%producer bra CONSUMER;
  setp.ne.u32 %first, %thread, 0;
  @%first bra END;
  mov.u32 %parity, 1;
PRODUCE:
{places}
FREE:
  mbarrier.try_wait.parity.shared.b64 %done, [%freed], %parity;
  @!%done bra FREE;
  mbarrier.arrive.expect_tx.shared.b64 _, [%filled], {STAGE_BYTES};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
    [%place], [%from], {STAGE_BYTES}, [%filled];
{advance}
  @%more bra PRODUCE;
  bra END;
CONSUMER:
  mov.u32 %parity, 0;
CONSUME:
{places}
FULL:
  mbarrier.try_wait.parity.shared.b64 %done, [%filled], %parity;
  @!%done bra FULL;
  shl.b32 %offset, %lane, 2;
  add.u32 %place, %place, %offset;
  ld.shared.u32 %word, [%place];
  bar.warp.sync 0xffffffff;
  setp.ne.u32 %first, %lane, 0;
  @%first bra NEXT;
  mbarrier.arrive.shared.b64 _, [%freed];
NEXT:
{advance}
  @%more bra CONSUME;
END:
  ret;
}}
"""


if __name__ == "__main__":
    main()
