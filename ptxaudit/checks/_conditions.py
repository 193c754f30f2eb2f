"""Conditions under which an instruction is executed, by the predicates that decide them.

Property: definitions of predicates that have the same outcome whenever the instruction is executed.
Direction: up the dominator tree from the instruction; join: a branch counts when only one of its ways leads
on, a guarded exit when the thread goes on. Known limit: a definition that a loop executes again in between is
taken to give the same value.
"""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import branch_condition, poll_loops
from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.instruction import Guard, Instruction

# A predicate register with the instruction that defines it, and what it is worth.
Conditions = dict[tuple[str, int], bool]
_THREAD_INPUTS = ("%tid", "%laneid", "%warpid", "SR_TID", "SR_LANEID", "SR_VIRTID", "elect.sync", "ELECT")
_LEAVING = ("exit", "ret")


def is_excluded(analysis: FunctionAnalysis, instruction: Instruction, facts: Conditions) -> bool:
    """Whether an instruction is not executed by threads for which the conditions hold."""
    key = _key(analysis, instruction.guard, instruction.index)
    if instruction.guard is None or key is None or key not in facts:
        return False
    return facts[key] == instruction.guard.negated


def ways(analysis: FunctionAnalysis, block: int, facts: Conditions) -> tuple[int, ...]:
    """The successors of a block that threads for which the conditions hold go on to."""
    successors = analysis.graph.blocks[block].successors
    branch = analysis.function.instructions[analysis.graph.blocks[block].end - 1]
    condition = branch_condition(branch)
    key = _key(analysis, condition, branch.index)
    if len(successors) != 2 or condition is None or key is None or key not in facts:
        return successors
    return (successors[int(facts[key] != condition.negated)],)


def known_conditions(analysis: FunctionAnalysis, index: int) -> Conditions:
    """What is decided wherever an instruction is executed: its guard, and the branches that lead to it."""
    graph = analysis.graph
    target = analysis.function.block_of(index).id
    facts: Conditions = {}
    _note(analysis, facts, analysis.function.instructions[index].guard, index, holds=True)
    current = graph.immediate_dominators.get(target)
    while current is not None:
        successors = graph.blocks[current].successors
        branch = analysis.function.instructions[graph.blocks[current].end - 1]
        if len(successors) == 1 and branch.parts[0].lower() in _LEAVING:
            _note(analysis, facts, branch.guard, branch.index, holds=False)
        elif len(successors) == 2:
            for position, successor in enumerate(successors):
                if graph.dominates(successor, target) and _is_entered_from(graph, successor, current):
                    _note(analysis, facts, branch_condition(branch), branch.index, holds=bool(position))
        current = graph.immediate_dominators.get(current)
    return facts


def thread_conditions(analysis: FunctionAnalysis, index: int) -> Conditions:
    """Those of an instruction's conditions that depend on which thread of the CTA executes it.

    What one thread has put into one place of shared memory for all is the same for each of them.
    """
    definitions = poll_loops(analysis).definitions
    instructions = analysis.function.instructions
    found: Conditions = {}
    for (name, definition), value in known_conditions(analysis, index).items():
        inputs = definitions.slice(
            [(register.name, definition) for register in instructions[definition].reads],
            definitions.everywhere,
            through_memory=False,
        )
        texts = [instructions[source].text for source in (*inputs, definition)]
        if any(text in source for source in texts for text in _THREAD_INPUTS):
            found[name, definition] = value
    return found


def _note(
    analysis: FunctionAnalysis, facts: Conditions, condition: Guard | None, index: int, holds: bool
) -> None:
    key = _key(analysis, condition, index)
    if condition is not None and key is not None:
        facts.setdefault(key, holds != condition.negated)


def _key(analysis: FunctionAnalysis, condition: Guard | None, index: int) -> tuple[str, int] | None:
    """The one definition that a predicate has at an instruction."""
    if condition is None:
        return None
    definitions = poll_loops(analysis).definitions
    name = condition.register.name
    reaching = definitions.reaching(name, index, definitions.everywhere)
    if reaching.open or len(reaching.definitions) != 1:
        return None
    return name, min(reaching.definitions)


def _is_entered_from(graph: ControlFlowGraph, block: int, source: int) -> bool:
    """Whether ``block`` is entered from ``source`` alone, back edges of loops that it heads apart."""
    return all(p == source or graph.dominates(block, p) for p in graph.predecessors[block])
