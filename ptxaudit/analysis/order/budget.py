"""What one exploration may take: its executions counted in operations, what is looked for in them in steps.

So the answer is the same on every machine, however fast it is and whatever else it does.
"""

from dataclasses import dataclass

from ptxaudit.analysis.order.machine import Machine
from ptxaudit.analysis.order.trace import Execution


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
    _refused: bool = False

    @property
    def is_used_up(self) -> bool:
        """Whether no further execution may begin."""
        return self._refused or self.spent >= self.total

    def run(self, machine: Machine) -> Execution:
        """The execution of a machine that has yet to run."""
        execution = machine.run()
        self.spent += execution.operations
        return execution

    def grants(self, steps: int) -> bool:
        """Grant so many steps of a walk, which then count, or refuse them and all that would come later."""
        self._refused = self._refused or self.walked + steps > self.steps
        if not self._refused:
            self.walked += steps
        return not self._refused

    def __str__(self) -> str:
        if self._refused:
            return f"the search for races would have taken more than {self.steps} steps in all"
        return f"executing the kernel was stopped after {self.total} operations in all"
