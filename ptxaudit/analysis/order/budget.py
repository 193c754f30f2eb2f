"""What one exploration may take: its executions counted in operations, what is looked for in them in steps.

So the answer is the same on every machine, however fast it is and whatever else it does.
"""

from dataclasses import dataclass

from ptxaudit.analysis.order.clocks import ClockWalk
from ptxaudit.analysis.order.machine import Machine
from ptxaudit.analysis.order.trace import Execution

_MOST_CLOCK_BYTES = 256 << 20


@dataclass(slots=True)
class Budget:
    """``each`` bounds the operations of one execution and ``total`` those of all that are run by this budget.

    ``steps`` bounds what the search for races walks in all: a step counts once for each agent that makes it.
    """

    each: int
    total: int
    steps: int
    spent: int = 0
    walked: int = 0
    _refused: str | None = None

    @property
    def is_used_up(self) -> bool:
        """Whether no further execution may begin."""
        return self._refused is not None or self.spent >= self.total

    def run(self, machine: Machine) -> Execution:
        """The execution of a machine that has yet to run."""
        execution = machine.run()
        self.spent += execution.operations
        return execution

    def grants(self, walk: ClockWalk) -> bool:
        """Grant a walk, whose steps then count, or refuse it and all that would come later."""
        steps = walk.work
        if self._refused is None and self.walked + steps > self.steps:
            self._refused = f"the search for races would have taken more than {self.steps} steps in all"
        if self._refused is None and walk.clock_bytes > _MOST_CLOCK_BYTES:
            self._refused = "the search for races would have taken more than 256 MB for clocks"
        if self._refused is None:
            self.walked += steps
        return self._refused is None

    def __str__(self) -> str:
        if self._refused is not None:
            return self._refused
        return f"executing the kernel was stopped after {self.total} operations in all"
