"""How far an address moves from one pass through a loop to the next.

Property: the difference, in bytes, between the values of an address in two consecutive passes, where it is
the same number in every pass. A register that the pass before defined is an unknown number in the first pass;
the address is worked out with that number and with what the pass makes of it, and the two are subtracted.
Direction and join: those of :mod:`ptxaudit.analysis.derivation`.

Known limits: loads are unknown, but for those of parameters; the loop is taken to go round the one way.
"""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions, Reaching, Region
from ptxaudit.analysis.derivation import Derivation, Result, TooMuch
from ptxaudit.ir.function import Language
from ptxaudit.ir.lanes import signed
from ptxaudit.ir.operands import Operand


def stride(
    analysis: FunctionAnalysis, definitions: Definitions, address: Operand, index: int, region: Region
) -> int | None:
    """By how many bytes an address operand of instruction ``index`` moves with each pass through ``region``.

    ``None`` where that is not one known number.
    """
    passes = _Passes(analysis, definitions, region)
    try:
        first, second = passes.number(address, index, 0), passes.number(address, index, 1)
    except TooMuch:
        return None
    bits = 64 if analysis.function.language is Language.PTX else 32
    difference = passes.domain.subtract(second, first, bits)
    return signed(difference, bits) if isinstance(difference, int) else None


class _Passes(Derivation):
    """Values in the first pass (turn 0) and in the one after it (1)."""

    def at_the_start(self, name: str) -> Result:
        return self.domain.atom(("outside", name), name)

    def from_outside(self, name: str, index: int, turn: int, reaching: Reaching) -> Result:
        if turn == 0:
            return self.domain.atom(("at the start", name), name)
        (definition,) = reaching.definitions
        return self.defined(name, definition, turn - 1)
