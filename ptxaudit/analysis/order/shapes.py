"""Launch shapes that are tried for a kernel, and what a shape rests on that nothing states."""

from collections.abc import Iterator, Sequence
from math import prod

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.machine import LaunchShape
from ptxaudit.analysis.order.program import Program
from ptxaudit.arch import MOST_CTAS_PER_CLUSTER, MOST_THREADS_PER_CTA
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.ir.launch import Launch

UNSTATED_BLOCK = "the block size is not stated"
_BLOCK_SIZES = (128, 256, 384, 512, 160, 192, 288, 1024)
_FURTHER_BLOCK_SIZES = (256, 384)
_CLUSTER_SIZES = (2, 1, 3, 4, 8)
_LONE_CLUSTER_SIZES = (1, 2)  # where nothing shows that there are peers


def impossible_shape(analysis: FunctionAnalysis) -> str | None:
    """Why no device launches what the code, or what came with it, states; ``None`` where one may."""
    facts, launch = analysis.function.facts, analysis.launch or Launch()
    block = facts.required_threads or launch.block or facts.maximum_threads
    cluster = facts.cluster or launch.cluster
    for extent, most, what in (
        (block, MOST_THREADS_PER_CTA, "threads for a CTA"),
        (cluster, MOST_CTAS_PER_CLUSTER, "CTAs for a cluster"),
    ):
        if extent is not None and not 1 <= prod(extent) <= most:
            return f"{prod(extent)} {what} are stated, and a device takes 1 to {most}"
    return None


def shapes(program: Program) -> Iterator[LaunchShape]:
    """Launch shapes to try, those that the code states alone where it states them."""
    facts = program.analysis.function.facts
    launch = program.analysis.launch or Launch()
    blocks = [facts.required_threads or launch.block or facts.maximum_threads]
    if blocks == [None]:
        blocks = [(size, 1, 1) for size in _BLOCK_SIZES]
    clusters = [facts.cluster or launch.cluster]
    if clusters == [None]:
        sizes: Sequence[int] = (1,)
        if _uses_clusters(program.analysis):
            sizes = _CLUSTER_SIZES if _reaches_peers(program.analysis) else _LONE_CLUSTER_SIZES
        clusters = [(size, 1, 1) for size in sizes]
    for cluster in clusters:
        for block in blocks:
            assert block is not None and cluster is not None
            yield LaunchShape(block, cluster)


def shape_assumptions(program: Program, shape: LaunchShape) -> Iterator[str]:
    """What a launch shape rests on that neither the code nor a launch description states."""
    facts, launch = program.analysis.function.facts, program.analysis.launch or Launch()
    if launch.block is None and facts.required_threads is None:
        if facts.maximum_threads is None:
            yield (
                f"{UNSTATED_BLOCK} (--launch can state it); {shape.threads} threads, the first that fits, "
                "are taken"
            )
        else:
            yield f"the block is taken to have its greatest size, {shape.threads} threads"
    if launch.cluster is None and facts.cluster is None and _uses_clusters(program.analysis):
        yield f"the cluster size is not stated; {shape.ctas} CTAs, the first that fits, are taken"


def other_shapes(program: Program, first: LaunchShape) -> Iterator[LaunchShape]:
    """Further block sizes, where the code states none: roles may exist only in larger blocks."""
    facts = program.analysis.function.facts
    stated = facts.required_threads or facts.maximum_threads
    if stated is None and (program.analysis.launch or Launch()).block is None:
        sizes = (size for size in _FURTHER_BLOCK_SIZES if size > first.threads)
        yield from (LaunchShape((size, 1, 1), first.cluster) for size in sizes)


def _uses_clusters(analysis: FunctionAnalysis) -> bool:
    for instruction, events in zip(analysis.function.instructions, analysis.events, strict=True):
        if any(isinstance(event, ev.AddressMapping) for event in events):
            return True
        if _need_peers(events):
            return True
        if any(register.name == "%cluster_ctarank" for register in instruction.reads):
            return True
    return False


def _reaches_peers(analysis: FunctionAnalysis) -> bool:
    """Whether a cluster of several CTAs is likely.

    SASS forms shared addresses with the CTA's rank in every kernel and maps them to ranks where PTX did,
    which is no sign of one yet.
    """
    if analysis.function.language is Language.PTX:
        return True
    return any(map(_need_peers, analysis.events))


def _need_peers(events: Sequence[ev.Event]) -> bool:
    # A request for more work is answered to every CTA of the cluster, also where there is but one.
    asks_for_work = any(isinstance(e, ev.Access) and e.operation == "try_cancel" for e in events)
    return not asks_for_work and any(map(_needs_peers, events))


def _needs_peers(event: ev.Event) -> bool:
    if isinstance(event, ev.ClusterBarrier):
        return True
    if isinstance(event, ev.Access | ev.MbarrierArrive | ev.MbarrierCompleteTx):
        return event.multicast
    return isinstance(event, ev.TensorOperation) and event.pair
