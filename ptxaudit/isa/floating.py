"""Which instructions compute floating-point numbers: those decide no address and no barrier."""

from ptxaudit.ir.instruction import Instruction


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PTX_OPERATIONS = _names(
    "abs add copysign cos cvt div ex2 fma lg2 mad max min mul neg rcp rsqrt set setp sin sqrt sub tanh testp"
)
_PTX_TYPES = _names("f16 f16x2 f32 f32x2 f64 bf16 bf16x2 tf32 e4m3x2 e5m2x2 e2m1x2")
_SASS_PREFIXES = (
    "FADD",
    "FMUL",
    "FFMA",
    "FMNMX",
    "FSET",
    "FSWZ",
    "FCHK",
    "MUFU",
    "DADD",
    "DMUL",
    "DFMA",
    "QMUL4",
)
_SASS_OPERATIONS = _names("DSETP F2F FRND HADD2 HMUL2 HSET2 HSETP2 HMNMX2 F2IP F2FP")


def is_floating_point(instruction: Instruction) -> bool:
    """Whether an instruction's results come from floating-point arithmetic.

    HFMA2 is left out, since ptxas loads integer constants with it, and so are the conversions and the
    reciprocal by which it divides integers.
    """
    opcode = instruction.opcode
    if opcode[:1].isupper():
        if opcode == "MUFU.RCP":
            return False
        return opcode.startswith(_SASS_PREFIXES) or opcode.split(".", 1)[0] in _SASS_OPERATIONS
    parts = opcode.split(".")
    return parts[0] in _PTX_OPERATIONS and not _PTX_TYPES.isdisjoint(parts[1:])
