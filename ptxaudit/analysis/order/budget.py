"""What the executions of one exploration may take, counted in operations.

So the answer is the same on every machine, however fast it is and whatever else it does.
"""

from dataclasses import dataclass

from ptxaudit.analysis.order.machine import Machine
from ptxaudit.analysis.order.trace import Execution


@dataclass(slots=True)
class Budget:
    """``each`` bounds one execution, ``total`` all that are run by this budget."""

    each: int
    total: int
    spent: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether no further execution may begin."""
        return self.spent >= self.total

    def run(self, machine: Machine) -> Execution:
        """The execution of a machine that has yet to run."""
        execution = machine.run()
        self.spent += execution.operations
        return execution

    def __str__(self) -> str:
        return f"executing the kernel was stopped after {self.total} operations in all"
