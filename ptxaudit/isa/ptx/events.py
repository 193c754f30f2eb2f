"""Events of PTX instructions: what each does to memory and to order.

:func:`events` is a pure function of the instruction and the target architecture. The tables of the
families (``events_memory``, ``events_mbarrier``, ``events_fence``, ``events_async``, ``events_tensor``)
map instruction names to builders; an instruction that is in no table and not among the silent ones,
arithmetic above all, has an unknown effect. An unknown modifier leaves the events of the instruction
in place and adds an unknown effect.

``L1Invalidate`` and ``MemoryFlush`` beside an event tell that the assembler is certain to emit a cache
invalidation or a memory barrier with it. The flush stands before the access or arrive that it releases,
the invalidation after what it acquires; both stand after a fence.

Known limits of these two: ptxas guards the invalidation of an mbarrier wait by the wait's own result, so
that it runs once per successful wait; those of an atomic operation by the lane that it elects; and those
of a cluster barrier by whether the kernel was launched with clusters, where its directives do not tell.
"""

from functools import lru_cache

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    Backoff,
    GridAction,
    GridDependency,
    RegisterReconfigure,
    Transfer,
    TransferKind,
    UnknownEffect,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import LabelReference, Operand, Symbol, Vector
from ptxaudit.isa.ptx import events_async, events_fence, events_mbarrier, events_memory, events_tensor
from ptxaudit.isa.ptx.events_common import Builder, Events, Lowering, UnexpectedOperands, integer
from ptxaudit.isa.ptx.forms import InstructionForm, instruction_form


def _always(events: Events) -> Builder:
    return lambda form, architecture: lambda operands: events


def _call(form: InstructionForm, architecture: Architecture) -> Lowering:
    def lower(operands: tuple[Operand, ...]) -> Events:
        callee = next((operand for operand in operands if not isinstance(operand, Vector)), None)
        target = callee.name if isinstance(callee, Symbol | LabelReference) else None
        return (Transfer(TransferKind.CALL, target),)

    return lower


def _reconfigure(form: InstructionForm, architecture: Architecture) -> Lowering:
    increase = "inc" in form.modifiers
    return lambda operands: (RegisterReconfigure(increase, integer(operands[0])),)


_BUILDERS: dict[str, Builder] = {
    **events_memory.BUILDERS,
    **events_mbarrier.BUILDERS,
    **events_fence.BUILDERS,
    **events_async.BUILDERS,
    **events_tensor.BUILDERS,
    "call": _call,
    "ret": _always((Transfer(TransferKind.RETURN),)),
    "exit": _always((Transfer(TransferKind.EXIT),)),
    "trap": _always((Transfer(TransferKind.TRAP),)),
    "nanosleep": _always((Backoff(),)),
    "setmaxnreg": _reconfigure,
    "griddepcontrol.wait": _always((GridDependency(GridAction.WAIT),)),
    "griddepcontrol.launch_dependents": _always((GridDependency(GridAction.LAUNCH_DEPENDENTS),)),
}

# Instructions whose whole effect the CFG or the registers show, and hints to the caches. The exchanges
# between lanes (shfl, vote, match, redux) converge the lanes but do not order memory (PTX ISA 9.7.13).
_SILENT_NAMES = """
    abs activemask add addc alloca and bfe bfi bfind bmsk bra brev brkpt brx.idx clmad clz cnot copysign
    cos createpolicy.cvt createpolicy.fractional createpolicy.range cvt cvt.pack cvta div dp2a dp4a ex2
    fma fns getctarank isspacep istypep lg2 lop3 mad mad24 madc match.all.sync match.any.sync max min
    mma mov movmatrix mul mul24 neg not or pmevent popc prmt rcp redux.sync rem rsqrt sad selp set setp
    shf shfl shfl.sync shl shr sin slct spcompress spdecompress sqrt stackrestore stacksave sub subc suq
    szext tanh testp txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2
    vmax4 vmin vmin2 vmin4 vote vote.sync vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wmma.mma xor
    applypriority applypriority.async.bulk applypriority.async.bulk.tensor cp.async.bulk.prefetch
    cp.async.bulk.prefetch.tensor discard prefetch prefetchu clusterlaunchcontrol.query_cancel
    mbarrier.check_layout mbarrier.pending_count
"""
_SILENT = frozenset(_SILENT_NAMES.split())

MODELLED = _SILENT | _BUILDERS.keys()
"""Names of the instructions whose effect is known, silent ones included."""


def _unknown(opcode: str) -> Lowering:
    events: Events = (UnknownEffect(opcode),)
    return lambda operands: events


@lru_cache(maxsize=16384)
def _lowering(opcode: str, operand_count: int, number: int, suffix: str) -> Lowering | None:
    """How instructions of this opcode lower; ``None`` when they have no events."""
    # The architecture comes in parts, since hashing it for every instruction would cost most of the time.
    architecture = Architecture(number, suffix)
    form = instruction_form(opcode, operand_count)
    builder = _BUILDERS.get(form.name)
    if not form.known:
        known_part = builder(form, architecture) if builder is not None else None
        return _unknown(opcode) if known_part is None else _with_unknown(opcode, known_part)
    if builder is not None:
        return builder(form, architecture)
    return None if form.name in _SILENT else _unknown(opcode)


def _with_unknown(opcode: str, lowering: Lowering) -> Lowering:
    return lambda operands: (*lowering(operands), UnknownEffect(opcode))


def events(instruction: Instruction, architecture: Architecture) -> Events:
    """What ``instruction`` does to memory and to order on ``architecture``, in program order.

    Empty for arithmetic and for loads of parameters and constants. An instruction whose operands do not
    fit its opcode gives :class:`UnknownEffect`, as does one that the tables do not have. Pure.
    """
    opcode, operands = instruction.opcode, instruction.operands
    lowering = _lowering(opcode, len(operands), architecture.number, architecture.suffix)
    if lowering is None:
        return ()
    try:
        return lowering(operands)
    except (UnexpectedOperands, IndexError, ValueError):
        return (UnknownEffect(opcode),)
