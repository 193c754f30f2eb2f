"""What predicates are worth when the outcome of some instructions is assumed.

Property: the value of a register before an instruction, under assumptions such as "this wait has not
succeeded". Direction: backward along reaching definitions, through the logic that compilers put between
a wait and what it guards: moves, boolean operations, selects, comparisons with numbers, votes. Join:
equal values stay, others are unknown (``None``). Known limit: other operations are unknown, and so is a
value that comes from outside the region.
"""

from collections.abc import Mapping

from ptxaudit.analysis.definitions import Definitions, Region
from ptxaudit.ir.instruction import Guard, Instruction
from ptxaudit.ir.operands import Immediate, Negated, Operand, Register

Value = int | None

_CONSTANTS = {"PT": 1, "UPT": 1, "RZ": 0, "URZ": 0}

_FOLLOWED = frozenset(
    (
        *("mov", "MOV", "UMOV", "not", "and", "or", "xor", "selp", "SEL", "USEL"),
        *("setp", "ISETP", "UISETP", "PLOP3", "UPLOP3", "vote", "VOTE", "VOTEU"),
    )
)
_NO_CYCLE = 1 << 30  # deeper than values rest on each other


class Supposition:
    """Values of registers in ``region`` when ``assumed`` holds: (instruction, register written) to value."""

    def __init__(
        self, definitions: Definitions, region: Region, assumed: Mapping[tuple[int, str], int]
    ) -> None:
        self._definitions = definitions
        self._region = region
        self._assumed = assumed
        self._active: dict[tuple[int, str], int] = {}
        self._known: dict[tuple[int, str], Value] = {}
        self._lowest = _NO_CYCLE

    def guard(self, guard: Guard | None, index: int) -> bool | None:
        """Whether an instruction with this guard executes at ``index``."""
        if guard is None:
            return True
        value = self.register(guard.register.name, index)
        return None if value is None else bool(value) != guard.negated

    def register(self, name: str, index: int) -> Value:
        """The value of a register before instruction ``index``."""
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        reaching = self._definitions.reaching(name, index, self._region)
        values = {self._defined(definition, name) for definition in reaching.definitions}
        if reaching.open or len(values) != 1:
            return None
        return values.pop()

    def _defined(self, index: int, name: str) -> Value:
        key = (index, name)
        if key in self._assumed:
            return self._assumed[key]
        if key in self._known:
            return self._known[key]
        if key in self._active:
            self._lowest = min(self._lowest, self._active[key])
            return None
        depth = self._active[key] = len(self._active)
        before, self._lowest = self._lowest, _NO_CYCLE
        value = self._result(self._definitions.instructions[index], name)
        del self._active[key]
        if self._lowest < depth:
            # It rests on a value that is being told, so it may be another one when asked for by itself.
            self._lowest = min(before, self._lowest)
        else:
            self._lowest = before
            self._known[key] = value
        return value

    def _operand(self, operand: Operand, index: int) -> Value:
        match operand:
            case Register(name):
                return self.register(name, index)
            case Immediate(int(number)):
                return number
            case Negated(inner):
                value = self._operand(inner, index)
                return None if value is None else int(not value)
            case _:
                return None

    def _result(self, instruction: Instruction, name: str) -> Value:
        root, *modifiers = instruction.parts
        if root not in _FOLLOWED:
            return None
        operands = [self._operand(operand, instruction.index) for operand in instruction.operands]
        if not instruction.operands or instruction.operands[0] != Register(name):
            return None
        match root:
            case "mov" | "MOV" | "UMOV":
                return operands[1]
            case "not" if modifiers == ["pred"]:
                return _negation(operands[1])
            case "and" | "or" | "xor" if modifiers == ["pred"]:
                return _combine(root, operands[1], operands[2])
            case "selp":
                return _choose(operands[3], operands[1], operands[2])
            case "SEL" | "USEL":
                return _choose(operands[-1], operands[1], operands[2])
            case "setp":
                return _comparison(modifiers, operands[1], operands[2], operands[3:])
            case "ISETP" | "UISETP":
                lowered = [modifier.lower() for modifier in modifiers]
                return _comparison(lowered, operands[2], operands[3], operands[4:5])
            case "PLOP3" | "UPLOP3":
                return _lookup(operands[2:5], operands[5])
            case "vote" | "VOTE" | "VOTEU":
                return _vote({modifier.lower() for modifier in modifiers}, operands[1])
            case _:
                return None


def _negation(value: Value) -> Value:
    return None if value is None else int(not value)


def _combine(operator: str, first: Value, second: Value) -> Value:
    """Boolean operation; a decisive side decides alone."""
    decisive = {"and": 0, "or": 1}.get(operator)
    known = [int(bool(value)) for value in (first, second) if value is not None]
    if decisive in known:
        return decisive
    if len(known) < 2:
        return None
    return known[0] ^ known[1] if operator == "xor" else known[0]


def _choose(condition: Value, then: Value, otherwise: Value) -> Value:
    if condition is None:
        return then if then == otherwise else None
    return then if condition else otherwise


def _comparison(modifiers: list[str], first: Value, second: Value, combined: list[Value]) -> Value:
    """``setp`` and ``ISETP``: equality of known values, joined with a further predicate."""
    equal = None if first is None or second is None else int(first == second)
    result = equal if "eq" in modifiers else _negation(equal) if "ne" in modifiers else None
    operator = next((m for m in modifiers if m in ("and", "or", "xor")), None)
    if operator is None or not combined:
        return result
    return _combine(operator, result, combined[0])


def _lookup(inputs: list[Value], table: Value) -> Value:
    """``PLOP3``: bit ``4a + 2b + c`` of the table, the same for all values of what is unknown."""
    if table is None:
        return None
    results = {
        table >> number & 1
        for number in range(8)
        if all(
            value is None or bool(value) == bool(number >> 2 - position & 1)
            for position, value in enumerate(inputs)
        )
    }
    return results.pop() if len(results) == 1 else None


def _vote(modes: set[str], own: Value) -> Value:
    """A lane's own value decides ``all`` when false and ``any`` when true."""
    if own is None:
        return None
    if "all" in modes and not own:
        return 0
    return 1 if "any" in modes and own else None
