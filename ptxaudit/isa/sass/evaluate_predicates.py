"""Predicates of SASS and choices by them: ISETP, PLOP3, SEL, IMNMX, and predicates as bits (R2P, P2R).

``ISETP`` compares, combines with a predicate, and gives the same with the comparison negated as its second
destination; ``.EX`` compares the upper words of two pairs whose lower words were compared before.
"""

from collections.abc import Sequence

from ptxaudit.ir import algebra
from ptxaudit.ir.operands import Register
from ptxaudit.ir.values import Domain, Truth, Value
from ptxaudit.isa.evaluation import LaneState, Result
from ptxaudit.isa.ptx import bitfields
from ptxaudit.isa.sass.evaluate_arithmetic import compile_extremum
from ptxaudit.isa.sass.evaluate_base import (
    WORD,
    Compiler,
    Flag,
    Form,
    Plan,
    Unmodelled,
    Word,
    only,
    pair_destinations,
)

_RELATIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
_STRICT = {"le": "lt", "ge": "gt", "lt": "lt", "gt": "gt"}
_LOGIC = {"AND": "and", "OR": "or", "XOR": "xor"}
_PREDICATES = 7


def _two(flags: Sequence[Register | None]) -> tuple[Register | None, Register | None]:
    if len(flags) != 2:
        raise Unmodelled
    return flags[0], flags[1]


def extended(
    domain: Domain, relation: str, first: Value, second: Value, lower: Truth, is_signed: bool
) -> Truth:
    """A 64-bit comparison from its upper words and the unsigned comparison of the lower ones."""
    if relation in ("eq", "ne"):
        upper = domain.compare(relation, first, second, 32, is_signed)
        return domain.combine("and" if relation == "eq" else "or", upper, lower)
    beyond = domain.compare(_STRICT[relation], first, second, 32, is_signed)
    same = domain.compare("eq", first, second, 32, is_signed)
    return domain.combine("or", beyond, domain.combine("and", same, lower))


def _compile_comparison(form: Form) -> Plan:
    form.allow(*_RELATIONS, *_LOGIC, "U32", "S32", "U64", "S64", "EX")
    relations = [_RELATIONS[part] for part in form.modifiers if part in _RELATIONS]
    logic = [_LOGIC[part] for part in form.modifiers if part in _LOGIC]
    flags, words = form.results()
    if len(relations) != 1 or len(logic) != 1 or words:
        raise Unmodelled
    destinations = _two(flags)
    form.expect(4 if form.has("EX") else 3)
    relation, operator = relations[0], logic[0]
    is_signed, is_long = not form.has("U32", "U64"), form.has("U64", "S64")
    (first, first_high), (second, second_high) = (
        form.pair(position) if is_long else (form.word(position), form.word(position)) for position in (0, 1)
    )
    other = form.flag(2)
    lower = form.flag(3) if form.has("EX") else None

    def comparison(domain: Domain, values: Sequence[Result]) -> Truth:
        left, right = first.get(domain, values), second.get(domain, values)
        if lower is not None:
            return extended(domain, relation, left, right, lower.get(domain, values), is_signed)
        if not is_long:
            return domain.compare(relation, left, right, 32, is_signed)
        below = domain.compare(relation, left, right, 32, False)
        above = first_high.get(domain, values), second_high.get(domain, values)
        return extended(domain, relation, *above, below, is_signed)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truth = comparison(domain, values)
        with_predicate = other.get(domain, values)
        result = domain.combine(operator, truth, with_predicate)
        if destinations[1] is None:
            return result, False
        return result, domain.combine(operator, domain.negate(truth), with_predicate)

    return Plan(destinations, compute)


def _truth_table(domain: Domain, table: int, inputs: Sequence[Truth]) -> Truth:
    nodes: list[Truth] = [*inputs, False, True]
    for left, operator, right in bitfields.logic_steps(table):
        nodes.append(domain.combine(operator, nodes[left], nodes[right]))
    return nodes[-1]


def _compile_predicate_table(form: Form) -> Plan:
    """PLOP3: two functions of three predicates."""
    form.allow("LUT")
    form.expect(5)
    flags, words = form.results()
    if words:
        raise Unmodelled
    destinations = _two(flags)
    inputs = [form.flag(position) for position in range(3)]
    tables = form.number(3) & 0xFF, form.number(4) & 0xFF

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truths = [flag.get(domain, values) for flag in inputs]
        result = _truth_table(domain, tables[0], truths)
        return result, False if destinations[1] is None else _truth_table(domain, tables[1], truths)

    return Plan(destinations, compute)


def _compile_select(form: Form) -> Plan:
    form.allow("64")
    form.expect(3)
    flags, words = form.results()
    if any(flags):
        raise Unmodelled
    condition = form.flag(2)
    destinations: tuple[Register | None, ...]
    if form.has("64"):
        destinations = pair_destinations(only(words))
        pairs = list(zip(form.pair(0), form.pair(1), strict=True))
    else:
        destinations = (only(words),)
        pairs = [(form.word(0), form.word(1))]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truth = condition.get(domain, values)
        if isinstance(truth, bool):
            return [(then if truth else otherwise).get(domain, values) for then, otherwise in pairs]
        return [
            domain.select(truth, then.get(domain, values), otherwise.get(domain, values))
            for then, otherwise in pairs
        ]

    return Plan(destinations, compute)


def _compile_long_extremum(form: Form) -> Plan:
    """IMNMX on pairs; its other predicates belong to chains of wider numbers, which are not modelled."""
    flags, words = form.results()
    form.expect(4)
    if any(flags) or not form.flag(3).is_false:
        raise Unmodelled
    is_signed = form.has("S64")
    first, second, least = form.pair(0), form.pair(1), form.flag(2)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        left = [word.get(domain, values) for word in first]
        right = [word.get(domain, values) for word in second]
        below = domain.compare("le", left[0], right[0], 32, False)
        smaller = extended(domain, "le", left[1], right[1], below, is_signed)
        chosen = domain.negate(domain.combine("xor", smaller, least.get(domain, values)))
        return [domain.select(chosen, one, other) for one, other in zip(left, right, strict=True)]

    return Plan(pair_destinations(only(words)), compute)


def _compile_extremum(form: Form) -> Plan:
    form.allow("U32", "S32", "U64", "S64")
    return _compile_long_extremum(form) if form.has("U64", "S64") else compile_extremum(form)


def _bank(form: Form) -> str:
    return "UP" if form.opcode.startswith("U") else "P"


def _chosen(form: Form, mask: int) -> list[tuple[int, Register]]:
    """The predicates that a mask names, with their bits."""
    return [(bit, Register(f"{_bank(form)}{bit}")) for bit in range(_PREDICATES) if mask >> bit & 1]


def _compile_to_predicates(form: Form) -> Plan:
    """R2P: the predicates of the mask become the bits of a word."""
    form.allow()
    form.expect(2)
    chosen = _chosen(form, form.number(1))
    source = form.word(0)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = source.get(domain, values)
        bits = [algebra.bitwise(domain, "and", value, 1 << bit, 32) for bit, _ in chosen]
        return [domain.compare("ne", bit, 0, 32, False) for bit in bits]

    return Plan(tuple(register for _, register in chosen), compute)


def _compile_from_predicates(form: Form) -> Plan:
    """P2R: a word whose masked bits are the predicates, the others those of a base word."""
    form.allow()
    flags, words = form.results()
    if flags or len(form.operands) < 2:
        raise Unmodelled
    mask = form.number(-1)
    base: Word = form.word(-2)
    sources: list[tuple[int, Flag]] = [(bit, form.predicate(flag)) for bit, flag in _chosen(form, mask)]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        total = algebra.bitwise(domain, "and", base.get(domain, values), ~mask & WORD, 32)
        for bit, flag in sources:
            total = domain.add(total, domain.number_of(flag.get(domain, values), 1 << bit), 32)
        return (total,)

    return Plan((only(words),), compute)


COMPILERS: dict[str, Compiler] = {
    "ISETP": _compile_comparison,
    "PLOP3": _compile_predicate_table,
    "SEL": _compile_select,
    "IMNMX": _compile_extremum,
    "VIMNMX": _compile_extremum,
    "R2P": _compile_to_predicates,
    "UR2UP": _compile_to_predicates,
    "P2R": _compile_from_predicates,
    "UP2UR": _compile_from_predicates,
}
