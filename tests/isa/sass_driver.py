"""Runs SASS on known numbers, one warp, through the evaluator: what the end-to-end tests compare with PTX."""

import shutil
import sysconfig
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from ptxaudit.ir.function import Function
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Negated, Operand, Register
from ptxaudit.ir.values import LANES, Domain, Flags, Truth, Value, as_lanes
from ptxaudit.isa.evaluation import LaneState, truth_of
from ptxaudit.isa.sass.evaluate import compile_evaluation

_ZERO = {"RZ": 0, "URZ": 0, "SRZ": 0}
_TRUE = ("PT", "UPT")
_NARROW = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}


@cache
def ptxas() -> Path | None:
    """ptxas of the nvidia-cuda-nvcc wheel, else of the PATH, else ``None``."""
    packaged = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/ptxas"))
    on_path = shutil.which("ptxas")
    return packaged[-1] if packaged else (Path(on_path) if on_path else None)


@dataclass
class SassRun:
    """Registers, constant bank 0 as bytes, and what was stored: address to byte, for every lane."""

    function: Function
    constants: dict[int, int]
    special: dict[str, Value]
    domain: Domain = field(default_factory=Domain)
    registers: dict[str, "Value | Truth"] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)
    steps: int = 0

    def run(self) -> dict[int, int]:
        """Execute to the end; every branch must be taken by all lanes or by none."""
        function = self.function
        starts = {block.start: block for block in function.blocks}
        index = 0
        while index < len(function.instructions):
            self.steps += 1
            assert self.steps < 20_000
            instruction = function.instructions[index]
            root = instruction.opcode.split(".")[0]
            lanes = self._guard(instruction)
            index += 1
            if not lanes.any():
                continue
            if root == "EXIT":
                assert lanes.all()
                break
            if root == "BRA":
                if self._uniform(instruction):
                    index = self._target(instruction, starts)
                continue
            self._execute(instruction, root, lanes)
        return self.memory

    def _target(self, instruction: Instruction, starts: dict[int, object]) -> int:
        offset = int(instruction.operands[-1].name[1:], 16)  # type: ignore[union-attr]
        found = [i.index for i in self.function.instructions if i.location.offset == offset]
        assert found[0] in starts
        return found[0]

    def _uniform(self, instruction: Instruction) -> bool:
        truth: Truth = True
        for operand in instruction.operands[:-1]:
            truth = self.domain.combine("and", truth, self._truth(operand))
        assert isinstance(truth, bool)
        guard = self._guard(instruction)
        assert guard.all()
        return truth

    def _guard(self, instruction: Instruction) -> Flags:
        if instruction.guard is None:
            return np.ones(LANES, dtype=np.bool_)
        truth = self._truth(instruction.guard.register)
        flags = np.broadcast_to(np.asarray(truth), LANES)
        return ~flags if instruction.guard.negated else flags

    def _truth(self, operand: Operand) -> Truth:
        if isinstance(operand, Negated):
            return self.domain.negate(self._truth(operand.operand))
        assert isinstance(operand, Register)
        if operand.name in _TRUE:
            return True
        return truth_of(self.domain, self.registers[operand.name])

    def value(self, operand: Operand) -> "Value | Truth":
        match operand:
            case Register(name):
                if name in _ZERO:
                    return 0
                return self.special[name] if name in self.special else self.registers[name]
            case Immediate(int(number)):
                return number
            case Memory() if operand.space == "const":
                return self._constant(operand, 0, 4)
            case _:
                raise AssertionError(f"source {operand}")

    def _constant(self, operand: Memory, more: int, width: int) -> int:
        assert operand.bank == 0
        place = operand.offset + more
        for term in operand.terms:
            number = self.value(term)
            assert type(number) is int
            place += number
        place &= 0xFFFFFFFF
        return sum(self.constants[place + byte] << (8 * byte) for byte in range(width))

    def _execute(self, instruction: Instruction, root: str, lanes: Flags) -> None:
        if root in ("LDC", "LDCU", "ULDC"):
            source = instruction.operands[-1]
            assert isinstance(source, Memory)
            for number, register in enumerate(instruction.writes):
                kind = next((part for part in instruction.parts if part in _NARROW), "")
                loaded = self._constant(source, 4 * number, _NARROW.get(kind, 4))
                sign = 0x80 << (8 * _NARROW.get(kind, 4) - 8) if kind.startswith("S") else 0
                self._write(register, (loaded ^ sign) - sign & 0xFFFFFFFF, lanes)
            return
        if root in ("STG", "ST"):
            self._store(instruction, lanes)
            return
        evaluation = compile_evaluation(instruction)
        if evaluation is None:
            assert not instruction.writes, instruction.text
            return
        sources = [self.value(source) for source in evaluation.sources]
        results = evaluation.compute(self.domain, LaneState(lanes), sources)
        for register, result in zip(evaluation.destinations, results, strict=True):
            if register is not None:
                self._write(register, result, lanes)

    def _write(self, register: Register, new: "Value | Truth", lanes: Flags) -> None:
        old = self.registers.get(register.name)
        if lanes.all() or old is None:
            self.registers[register.name] = new
        elif isinstance(new, bool) or (isinstance(new, np.ndarray) and new.dtype == np.bool_):
            flags = np.broadcast_to(np.asarray(new), LANES)
            kept = np.broadcast_to(np.asarray(truth_of(self.domain, old)), LANES)
            self.registers[register.name] = np.where(lanes, flags, kept)
        else:
            self.registers[register.name] = self.domain.blend(lanes, new, old)  # type: ignore[arg-type]

    def _numbers(self, register: Register) -> list[int]:
        value = self.value(register)
        if isinstance(value, bool):
            value = int(value)
        assert isinstance(value, int | np.ndarray), f"{register.name} is {value}"
        return [int(number) for number in as_lanes(value)]

    def _store(self, instruction: Instruction, lanes: Flags) -> None:
        address, source = instruction.operands[-2:]
        assert isinstance(address, Memory) and len(address.terms) >= 1
        base, *more = address.terms
        assert isinstance(base, Register)
        low = self._numbers(base)
        high = self._numbers(Register(f"R{int(base.name[1:]) + 1}"))
        extra = [self._numbers(term) for term in more if isinstance(term, Register)]
        assert isinstance(source, Register)
        parts = instruction.opcode.split(".")
        narrow = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
        width = next((narrow[part] for part in parts if part in narrow), 4)
        for lane in np.flatnonzero(lanes):
            place = (high[lane] << 32) + low[lane] + address.offset + sum(values[lane] for values in extra)
            for number in range((width + 3) // 4):
                register = source
                if source.name != "RZ" and number:
                    register = Register(f"R{int(source.name[1:]) + number}")
                word = self._numbers(register)[lane]
                for byte in range(min(width, 4)):
                    self.memory[place + 4 * number + byte] = word >> (8 * byte) & 0xFF
