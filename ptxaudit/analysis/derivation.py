"""What registers hold, worked out backward from the instructions that define them.

Property: the value of an operand at a point, as a function of what is not worked out: registers that several
instructions may have defined, or a guarded one, and everything loaded are unknown numbers. Direction:
backward over reaching definitions. Join: none, a register with several definitions is unknown. Subclasses say
what is known at the start, and of values that come round a loop.

Known limits: those of the evaluation of each instruction (:mod:`ptxaudit.isa`); at most a few thousand steps,
60 behind each other.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable

import numpy as np

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions, Reaching, Region
from ptxaudit.ir.function import Language
from ptxaudit.ir.operands import Immediate, Memory, Negated, Operand, Register, Vector
from ptxaudit.ir.values import LANES, Affine, Domain, Truth, Value
from ptxaudit.isa.evaluation import Evaluation, LaneState

_MOST_STEPS = 2000
# Registers that one derives from, one behind the other: a step takes several frames of Python's stack.
_DEEPEST = 60
_EVERY_LANE = LaneState(np.ones(LANES, dtype=bool))
_WORD = (1 << 64) - 1
Result = Value | Truth


class TooMuch(Exception):
    """A value derives from more than is looked at."""


class Derivation(ABC):
    """Values of operands in one function; ``turn`` tells passes through a loop apart."""

    def __init__(self, analysis: FunctionAnalysis, definitions: Definitions, region: Region) -> None:
        self.domain = Domain()
        self.analysis = analysis
        self._definitions = definitions
        self._region = region
        self._known: dict[tuple[str, int, int], Result] = {}
        # Each warp has a derivation of its own; what an instruction computes is the same for all.
        self._evaluations: dict[int, Evaluation | None] = analysis.memo("evaluations", dict)
        self._steps = 0
        self._depth = 0

    @abstractmethod
    def at_the_start(self, name: str) -> Result:
        """What a register holds that no instruction of the region defines before."""

    @abstractmethod
    def from_outside(self, name: str, index: int, turn: int, reaching: Reaching) -> Result:
        """What a register holds that is defined in the region, or from outside."""

    def number(self, operand: Operand, index: int, turn: int = 0) -> Value:
        """An operand of instruction ``index`` as a number; raises :class:`TooMuch`."""
        value = self.operand(operand, index, turn)
        is_number = isinstance(value, int | Affine) or (
            isinstance(value, np.ndarray) and value.dtype != np.bool_
        )
        return value if is_number else self.unknown((operand, index, turn))  # type: ignore[return-value]

    def operand(self, operand: Operand, index: int, turn: int = 0) -> Result:
        """What an operand of instruction ``index`` stands for; raises :class:`TooMuch`."""
        match operand:
            case Register(name):
                return self._register(name, index, turn)
            case Immediate(int(value)):
                return value & _WORD if value >= 0 else value
            case Negated(inner):
                return self._negated(self.operand(inner, index, turn))
            case Memory(space=None):
                return self._address(operand, index, turn)
            case Vector(elements) if elements:
                return self.operand(elements[0], index, turn)
            case _:
                return self.domain.atom(("outside", operand), str(operand))

    def defined(self, name: str, definition: int, turn: int) -> Result:
        """What a register holds behind its definition."""
        instruction = self.analysis.function.instructions[definition]
        evaluation = self._evaluation(definition)
        if instruction.guard is None and evaluation is not None:
            sources = [self.operand(source, definition, turn) for source in evaluation.sources]
            results = evaluation.compute(self.domain, _EVERY_LANE, sources)
            for destination, result in zip(evaluation.destinations, results, strict=True):
                if destination is not None and destination.name == name:
                    return result
        return self.unknown((name, definition, turn))

    def unknown(self, key: Hashable) -> Affine:
        """A number of which nothing is known; the same for the same key."""
        return self.domain.atom(("unknown", key), f"unknown {key}", varying=True)

    def _negated(self, plain: Result) -> Result:
        if isinstance(plain, bool) or not isinstance(plain, int | Affine | np.ndarray):
            return self.domain.negate(plain)
        if isinstance(plain, np.ndarray) and plain.dtype == np.bool_:
            return self.domain.negate(plain)  # type: ignore[arg-type]
        return self.domain.subtract(0, plain, 32)  # type: ignore[arg-type]

    def _address(self, memory: Memory, index: int, turn: int) -> Value:
        total: Value = memory.offset & _WORD
        for term in memory.terms:
            total = self.domain.add(total, self.number(term, index, turn), 64)
        return total

    def _register(self, name: str, index: int, turn: int) -> Result:
        key = (name, index, turn)
        if key not in self._known:
            self._steps += 1
            if self._steps > _MOST_STEPS or self._depth >= _DEEPEST:
                raise TooMuch
            self._known[key] = self.unknown(key)  # where it derives from itself
            self._depth += 1
            try:
                self._known[key] = self._reached(name, index, turn)
            finally:
                self._depth -= 1
        return self._known[key]

    def _reached(self, name: str, index: int, turn: int) -> Result:
        reaching = self._definitions.reaching(name, index, self._region)
        if not reaching.definitions:
            return self.at_the_start(name)
        if len(reaching.definitions) > 1:
            return self.unknown((name, index, turn))
        if reaching.open:
            return self.from_outside(name, index, turn, reaching)
        (definition,) = reaching.definitions
        return self.defined(name, definition, turn)

    def _evaluation(self, index: int) -> Evaluation | None:
        if index not in self._evaluations:
            self._evaluations[index] = _compiled(self.analysis, index)
        return self._evaluations[index]


def _compiled(analysis: FunctionAnalysis, index: int) -> Evaluation | None:
    instruction = analysis.function.instructions[index]
    # The tables of the language that is at hand, and not of the other.
    if analysis.function.language is Language.SASS:
        from ptxaudit.isa.sass.evaluate import compile_evaluation as sass_evaluation

        return sass_evaluation(instruction)
    from ptxaudit.isa.ptx.evaluate import compile_evaluation as ptx_evaluation

    return ptx_evaluation(instruction, analysis.function.register_types)
