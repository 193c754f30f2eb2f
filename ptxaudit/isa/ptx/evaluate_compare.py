"""Comparison and predicate logic (PTX ISA 9.7.6, 9.7.8): setp, set, and logic on predicates."""

from collections.abc import Callable, Sequence

from ptxaudit.ir.values import Domain, Truth
from ptxaudit.isa.evaluation import Compute, LaneState, Result, as_numbers, truth_of, unmodelled
from ptxaudit.isa.ptx.evaluate_base import Compiler, Shape, integer_width

# Relation, and whether it is one of unsigned numbers whatever the type (PTX ISA 9.3.1).
_RELATIONS = {
    "eq": ("eq", False),
    "ne": ("ne", False),
    "lt": ("lt", False),
    "le": ("le", False),
    "gt": ("gt", False),
    "ge": ("ge", False),
    "lo": ("lt", True),
    "ls": ("le", True),
    "hi": ("gt", True),
    "hs": ("ge", True),
}
_LOGIC = ("and", "or", "xor")


def _comparison(shape: Shape) -> "Callable[[Domain, Sequence[Result]], Truth]":
    """The comparison alone: known for integers, an atom that is not zero for floating point."""
    spelled, kind = shape.modifiers[0], shape.kind
    bits = integer_width(kind)
    if bits is None or bits > 64 or spelled not in _RELATIONS:
        name = f"{shape.name}.{spelled}.{kind}"

        def unknown(domain: Domain, values: Sequence[Result]) -> Truth:
            return unmodelled(domain, name, values[:2], (True,))[0]  # type: ignore[return-value]

        return unknown
    relation, unsigned = _RELATIONS[spelled]
    is_signed = kind.startswith("s") and not unsigned

    def known(domain: Domain, values: Sequence[Result]) -> Truth:
        first, second = as_numbers(values[:2])
        return domain.compare(relation, first, second, bits, is_signed)

    return known


def _compile_set_predicate(shape: Shape) -> Compute | None:
    if len(shape.modifiers) < 2 or len(shape.destinations) not in (1, 2):
        return None
    compare = _comparison(shape)
    logic = next((part for part in shape.modifiers[1:] if part in _LOGIC), None)
    both = len(shape.destinations) == 2
    if len(shape.sources) != (2 if logic is None else 3):
        return None
    if logic is None and not both:

        def plain(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
            return (compare(domain, values),)

        return plain

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first = compare(domain, values)
        results = [first, domain.negate(first)] if both else [first]
        if logic is not None:
            other = truth_of(domain, values[2])
            results = [domain.combine(logic, result, other) for result in results]
        return results

    return compute


def _compile_set(shape: Shape) -> Compute | None:
    """``set``: all ones or zero; with a floating-point destination an atom."""
    if len(shape.types) != 2 or integer_width(shape.types[0]) != 32:
        return None
    logic = next((part for part in shape.modifiers[1:] if part in _LOGIC), None)
    if len(shape.sources) != (2 if logic is None else 3):
        return None
    compare = _comparison(shape)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truth = compare(domain, values)
        if logic is not None:
            truth = domain.combine(logic, truth, truth_of(domain, values[2]))
        return (domain.number_of(truth, 0xFFFFFFFF),)

    return compute


def predicate_logic(shape: Shape) -> Compute | None:
    """``and.pred``, ``or.pred``, ``xor.pred``, ``not.pred``."""
    operator = shape.name
    if operator == "not":

        def invert(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
            return (domain.negate(truth_of(domain, values[0])),)

        return invert

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = truth_of(domain, values[0]), truth_of(domain, values[1])
        return (domain.combine(operator, first, second),)

    return compute if operator in _LOGIC else None


COMPILERS: dict[str, Compiler] = {"setp": _compile_set_predicate, "set": _compile_set}
