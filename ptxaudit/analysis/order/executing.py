"""An operation as the active lanes of a fragment execute it: what the effects of its events work on."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order.address import split
from ptxaudit.analysis.order.fragment import Fragment, blend
from ptxaudit.analysis.order.program import Operation
from ptxaudit.analysis.order.trace import BarrierKey, Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.operands import Operand, Register
from ptxaudit.ir.values import Affine, Flags, Truth, Value, as_lanes
from ptxaudit.isa.sass import encodings

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine


class Progress(Enum):
    """Whether the fragment goes on after an event."""

    CONTINUE = auto()
    WAIT = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Executing:
    """One operation under execution by the ``active`` lanes of a fragment.

    ``may`` tells that it runs under a condition that varies by lane in a way that is not known.
    """

    machine: "Machine"
    fragment: Fragment
    operation: Operation
    active: Flags
    may: bool

    @property
    def cta(self) -> int:
        """The CTA of the executing warp."""
        return self.machine.execution.warps[self.fragment.warp].cta

    @property
    def lane_count(self) -> int:
        """How many lanes execute the operation."""
        return int(np.count_nonzero(self.active))

    def step(self, event: ev.Event) -> Step:
        """Record that an event was executed."""
        return self.machine.step(self.fragment, self.operation, event, self.active, self.may)

    def value(self, operand: Operand) -> Value:
        """An operand as a number, as the lanes that take part hold it."""
        return self.machine.domain.within(self.machine.value(self.fragment, operand), self.active)

    def common(self, operand: Operand) -> Value:
        """An operand as one number where it is the same in all lanes that take part."""
        return among(self.value(operand), self.active)

    def keys(self, operand: Operand) -> list[tuple[BarrierKey, int]] | None:
        """The mbarriers that an operand names, with the number of lanes for each; ``None`` if not known."""
        value = self.value(operand)
        if isinstance(value, Affine):
            return None
        if isinstance(value, int):
            return [(("mbarrier", *split(value)), self.lane_count)]
        addresses, counts = np.unique(as_lanes(value)[self.active], return_counts=True)
        return [
            (("mbarrier", *split(int(address))), int(count))
            for address, count in zip(addresses, counts, strict=True)
        ]

    def destinations(self, event: ev.Access | ev.MbarrierArrive | ev.MbarrierCompleteTx) -> list[int]:
        """The CTAs that a multicast reaches: those of its mask, all where the mask is not known."""
        mask = None if event.cta_mask is None else self.common(event.cta_mask)
        if self.machine.in_sass and mask is not None:
            commits = isinstance(event, ev.MbarrierArrive)
            mask = encodings.commit_mask(mask) if commits else encodings.copy_mask(mask)
        ranks = range(self.machine.shape.ctas)
        return [rank for rank in ranks if not isinstance(mask, int) or mask >> rank & 1]

    def in_every_cta(
        self, event: ev.MbarrierArrive, keys: list[tuple[BarrierKey, int]]
    ) -> list[tuple[BarrierKey, int]]:
        """A multicast signals the barrier at the same offset in every CTA that it reaches."""
        ranks = self.destinations(event)
        return [((kind, rank, offset), count) for (kind, _, offset), count in keys for rank in ranks]

    def signals(
        self, event: ev.MbarrierCompleteTx, keys: list[tuple[BarrierKey, int]]
    ) -> list[tuple[int | None, BarrierKey, int]]:
        """The CTA that a copy goes to (where it is a multicast), the mbarrier that it signals, the lanes.

        A multicast signals the barrier at the same offset in every CTA that it reaches; one by a pair of
        CTAs signals the CTA of the pair whose rank is as even or odd as that of the barrier's CTA.
        """
        if not event.multicast:
            return [(None, key, count) for key, count in keys]
        return [
            (rank, (kind, rank & ~1 | holder & 1 if event.pair else rank, offset), count)
            for (kind, holder, offset), count in keys
            for rank in self.destinations(event)
        ]

    def write(self, register: Register, new: "Value | Truth") -> None:
        """Give a register its new value in the active lanes."""
        registers = self.fragment.registers
        old = registers.get(register.name)
        if old is None or bool(self.active[self.fragment.mask].all()):
            registers[register.name] = new
        else:
            registers[register.name] = blend(self.machine.domain, self.active, new, old)


def among(value: Value, active: Flags) -> Value:
    """A value as one number where it is the same in all lanes that take part."""
    if isinstance(value, np.ndarray):
        first = value[active][0]
        return int(first) if bool((value[active] == first).all()) else value
    return value


def assume(machine: "Machine", text: str) -> None:
    """Note what the execution takes for granted, once."""
    if text not in machine.execution.assumptions:
        machine.execution.assumptions.append(text)
