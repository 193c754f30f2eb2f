"""Events of mbarriers, fences, barriers and group waits.

What SASS does not show is ``None``: a wait on an mbarrier is spelled alike for ``.relaxed`` and
``.acquire.cta``, and ``.acquire.cluster`` only adds ``CCTL.IVALL`` behind it; an arrive is spelled alike
for ``.relaxed`` and ``.release.cta``, and wider releases add ``MEMBAR`` before it. ``fence.mbarrier_init``
and ``tcgen05.fence`` leave no instruction.
"""

import re
from collections.abc import Sequence

from ptxaudit.ir.events import (
    ArriveSource,
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    Fence,
    GroupCommit,
    GroupKind,
    GroupWait,
    L1Invalidate,
    MbarrierArrive,
    MbarrierCompleteTx,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    TensorAction,
    TensorOperation,
    WarpBarrier,
    WgmmaFence,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Operand, Register, Vector
from ptxaudit.isa.sass.events_common import (
    SCOPES,
    Events,
    Lowering,
    Surroundings,
    UnexpectedOperands,
    address,
    after_address,
    integer,
    operand,
    register_or_none,
)

# How an arrive changes the pending arrivals (A) and transactions (T): by nothing, one, or a register.
_TRANSACTION = re.compile(r"A([01R])T([01RX])$")
_DEFAULT_TRANSACTION = ("1", "R")
_BARRIER_ACTIONS = {
    "SYNC": BarrierAction.SYNC,
    "ARV": BarrierAction.ARRIVE,
    "RED": BarrierAction.REDUCE,
}


def _mbarrier(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    match parts[1:]:
        case ["EXCH", *_]:
            # The count is encoded: the pair holds 2 * (2**20 - count) and 2**11 * (2**20 - count).
            return (MbarrierInit(address(instruction), operand(instruction, -1)),)
        case ["CCTL", "IV", *_]:
            return (MbarrierInvalidate(address(instruction)),)
        case ["ARRIVE", *_]:
            return _arrive(parts, instruction)
        case ["PHASECHK", *_]:
            return _wait(parts, instruction)
    raise UnexpectedOperands


def _arrive(parts: Sequence[str], instruction: Instruction) -> Events:
    place = address(instruction)
    values = after_address(instruction)
    if not values:
        raise UnexpectedOperands
    value = values[0]
    spelled = next((match.groups() for part in parts if (match := _TRANSACTION.match(part))), None)
    arrivals, transactions = spelled or _DEFAULT_TRANSACTION
    # .RED gives no state back. It reaches any CTA of the cluster, but is also used for a local expect_tx.
    remote = "RED" in parts
    space = StateSpace.CLUSTER if remote else StateSpace.SHARED
    match arrivals, transactions:
        case "0", "R":
            return (MbarrierExpect(place, space, value),)
        case "0", "X":
            return (MbarrierCompleteTx(place, space, value, Scope.CLUSTER, Proxy.GENERIC),)
        case "0", "1":
            return ()  # the pending count of cp.async.mbarrier.arrive, which ARRIVES takes back
        case (("1" | "R"), ("0" | "R")):
            arrive = MbarrierArrive(
                place,
                space,
                None,
                None,
                count=value if arrivals == "R" else None,
                expect_bytes=value if transactions == "R" else None,
                drop="OPTOUT" in parts,
                state=register_or_none(operand(instruction, 0)),
            )
            return (arrive,)
    raise UnexpectedOperands


def _wait(parts: Sequence[str], instruction: Instruction) -> Events:
    values = after_address(instruction)
    if not values:
        raise UnexpectedOperands
    # A parity is shifted to the bit where a state has its phase; the instruction is the same for both.
    return (
        MbarrierWait(
            address(instruction),
            values[0],
            by_parity=True,
            semantics=None,
            scope=None,
            result=operand(instruction, 0),
            blocking="TRYWAIT" in parts,
        ),
    )


def _copy_arrive(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``ARRIVES.LDGSTSBAR``: the arrive that follows the thread's earlier ``LDGSTS``."""
    return (
        MbarrierArrive(
            address(instruction),
            StateSpace.SHARED,
            Semantics.RELEASE,
            Scope.CTA,
            source=ArriveSource.CP_ASYNC,
            no_increment="ARVCNT" in parts,
        ),
    )


def _memory_barrier(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    scope = next((SCOPES[part] for part in parts if part in SCOPES), None)
    if scope is None:
        raise UnexpectedOperands
    return (MemoryFlush(scope, sc="SC" in parts),)


def _view_fence(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    match parts[1:]:
        case ["VIEW", "ASYNC", "T"]:
            return (TensorOperation(TensorAction.WAIT_STORE, False),)
        case ["VIEW", "ASYNC", "S"]:
            return (Fence(None, None, Proxy.ASYNC, StateSpace.SHARED),)
        case ["VIEW", "ASYNC", "G"]:
            return (Fence(None, None, Proxy.ASYNC, StateSpace.GLOBAL),)
        case ["VIEW", "ASYNC"]:
            return (Fence(None, None, Proxy.ASYNC),)
    raise UnexpectedOperands


def _cache_control(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    # The other forms prefetch, discard or change priorities, or invalidate the constant cache.
    return (L1Invalidate(),) if "IVALL" in parts else ()


def _tensormap_control(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    if "IV" not in parts:
        return ()
    return (Fence(Semantics.ACQUIRE, None, Proxy.TENSORMAP, address=address(instruction)),)


def _cta_barrier(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    action = _BARRIER_ACTIONS.get(parts[1]) if len(parts) > 1 else None
    if action is None or not instruction.operands:
        raise UnexpectedOperands
    barrier = instruction.operands[0]
    counts = [o for o in instruction.operands[1:] if not _is_predicate(o)]
    # Aligned and unaligned barriers are spelled alike from sm_90 on.
    return (CtaBarrier(action, barrier, counts[0] if counts else None, aligned=False),)


def _is_predicate(value: Operand) -> bool:
    return isinstance(value, Register) and value.name.startswith(("P", "UP"))


def _warp_barrier(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    return (WarpBarrier(instruction.operands[0] if instruction.operands else None),)


def _cluster_barrier(action: BarrierAction) -> Lowering:
    return lambda parts, instruction, surroundings: (ClusterBarrier(action, None, aligned=False),)


def _scoreboard_wait(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``DEPBAR.LE SB0, n``: wait for groups, spelled alike for bulk copies and ``cp.async``.

    It is a wait for whatever the function commits; of bulk groups for the reads only, unless an L1
    invalidation follows. Other forms wait for the scoreboards of ordinary instructions.
    """
    operands = instruction.operands
    if "LE" not in parts or len(operands) < 2 or operands[0] != Register("SB0"):
        return ()
    if isinstance(operands[1], Vector):
        return ()
    depth = integer(operands[1])
    waits = []
    for kind in (GroupKind.BULK, GroupKind.CP_ASYNC):
        if kind in surroundings.groups:
            read_only = kind is GroupKind.BULK and not surroundings.invalidates
            waits.append(GroupWait(kind, depth, read_only))
    return tuple(waits)


def _flush(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    # The same instruction ends the acquire of a tensor map, where it commits no group of the program's.
    return () if surroundings.tensormap else (GroupCommit(GroupKind.BULK),)


def _warpgroup(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    match parts[1:]:
        case ["ARRIVE"]:
            return (WgmmaFence(),)
        case ["DEPBAR", "LE"]:
            return (GroupWait(GroupKind.WGMMA, integer(operand(instruction, 1))),)
    raise UnexpectedOperands


LOWERINGS: dict[str, Lowering] = {
    "SYNCS": _mbarrier,
    "ARRIVES": _copy_arrive,
    "MEMBAR": _memory_barrier,
    "FENCE": _view_fence,
    "CCTL": _cache_control,
    "UTMACCTL": _tensormap_control,
    "BAR": _cta_barrier,
    "WARPSYNC": _warp_barrier,
    "UCGABAR_ARV": _cluster_barrier(BarrierAction.ARRIVE),
    "UCGABAR_WAIT": _cluster_barrier(BarrierAction.WAIT),
    "DEPBAR": _scoreboard_wait,
    "LDGDEPBAR": lambda parts, instruction, surroundings: (GroupCommit(GroupKind.CP_ASYNC),),
    "UTMACMDFLUSH": _flush,
    "WARPGROUP": _warpgroup,
}
