"""Decisions about conditions that the code alone does not settle, the same in every warp.

Property: the set of decisions taken in one execution is satisfiable by intervals: each linear sum of
atoms has a range (and excluded points), a decision narrows it, and a condition that the range already
settles is not a decision. A condition on something not linear is remembered by its key. Known limit:
two sums that are related in a way that is not linear (a product, a rounding) may be decided in a way
that no launch can give; a run in which that leaves a warp stuck is not used as evidence.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from ptxaudit.ir.affine import rests_on_data
from ptxaudit.ir.values import (
    INVERSE_RELATION,
    Affine,
    Atom,
    Combination,
    Comparison,
    Condition,
    Domain,
    Flags,
    Truth,
    is_varying,
)

_UNBOUNDED = 1 << 62


@dataclass(slots=True)
class Decision:
    """One decision: at which instruction, about what, and how it went.

    ``input`` is the one input of the kernel that it is about, if it is about one alone; within that input's
    range some launch certainly makes it go this way. ``on_data`` tells that it is about the kernel's data
    alone. ``part`` tells the conditions apart that are combined at one site.
    """

    key: Hashable
    text: str
    outcome: bool
    site: int
    input: Hashable | None
    on_data: bool
    part: int = 0

    @property
    def possible(self) -> bool:
        """Whether some launch certainly makes this and all decisions before it go this way."""
        return self.input is not None


@dataclass(slots=True)
class _Range:
    low: int
    high: int
    excluded: set[int] = field(default_factory=set)


class Decisions:
    """The decisions of one execution.

    ``forced`` maps the ordinal of a free decision to the outcome it must have; the others get what the
    caller prefers, with ``against_data`` the contrary where the kernel's data decide.
    """

    def __init__(
        self, domain: Domain, forced: Mapping[int, bool] | None = None, against_data: bool = False
    ) -> None:
        self._domain = domain
        self._against_data = against_data
        self._ranges: dict[Hashable, _Range] = {}
        self._known: dict[Hashable, bool] = {}
        self._forced = forced or {}
        self._points: dict[Hashable, int] = {}
        self._equations: list[tuple[dict[int, int], int]] = []
        self.taken: list[Decision] = []

    def pinned(self, value: Affine) -> int | None:
        """The one number that the decisions so far leave for a value, or ``None``."""
        if not (self._equations or self._points) or not isinstance(value.offset, int):
            return None
        key, scale, _ = _linear_key(value)
        known = self._ranges.get(key)
        if known is not None and known.low == known.high:
            return known.low * scale + value.offset
        total = value.offset
        for atom, factor in value.terms:
            single = self._points.get(((atom.identity, 1),))
            if single is None:
                single = self._derived(atom)
            if single is None:
                return None
            total += single * factor
        return total

    def _derived(self, atom: Atom) -> int | None:
        """The number of an atom that was computed from values which have become known since."""
        definition = self._domain.definitions.get(atom)
        if definition is None:
            return None
        compute, source = definition
        number = self.pinned(source)
        return None if number is None else compute(number)

    def decide(self, truth: Truth, preferred: Callable[[], bool], site: int, part: int = 0) -> bool | None:
        """The outcome of a truth; ``None`` when known lanes differ (the caller has to split them).

        ``preferred`` gives the outcome wanted if both are possible. ``part`` tells the conditions apart that
        are combined at one site.
        """
        if isinstance(truth, bool):
            return truth
        if isinstance(truth, np.ndarray):
            return None
        settled = self.settled(truth)
        if settled is not None:
            return settled
        if isinstance(truth, Combination):
            return self._decide_parts(truth, preferred, site, part)
        ordinal = len(self.taken)
        on_data = rests_on_data(truth)
        if ordinal in self._forced:
            outcome = self._forced[ordinal]
        else:
            outcome = preferred() != (on_data and self._against_data)
        about = _only_input(truth.expression)
        self.taken.append(
            Decision(self._domain.key(truth), _text(truth), outcome, site, about, on_data, part)
        )
        self._assume(truth, outcome)
        if ordinal in self._forced and about is not None:
            self._settle_small(truth.expression)
        return outcome

    def _settle_small(self, expression: Affine) -> None:
        """A turned decision that bounds an input from above gives it the greatest number left.

        Loops are then skipped with one launch in mind, so what is computed from the input is known.
        """
        key, _, _ = _linear_key(expression)
        known = self._ranges[key]
        if known.high < _UNBOUNDED and known.low < known.high:
            known.low = known.high
            self._equations.append((dict(key), known.low))  # type: ignore[call-overload]
            self._solve()

    def _decide_parts(
        self, truth: Combination, preferred: Callable[[], bool], site: int, part: int
    ) -> bool | None:
        """Decide the parts one by one, the last one so that the whole comes out as preferred."""
        if truth.operator == "not":
            inner = self.decide(truth.parts[0], lambda: not preferred(), site, part)
            return None if inner is None else not inner
        if truth.operator == "xor":
            both = [
                self.decide(one, lambda: False, site, 2 * part + number)
                for number, one in enumerate(truth.parts, 1)
            ]
            return None if None in both else both[0] != both[1]
        neutral = truth.operator == "and"
        for number, one in enumerate(truth.parts, 1):
            wanted = preferred if number == len(truth.parts) else lambda: neutral
            outcome = self.decide(one, wanted, site, 2 * part + number)
            if outcome is None or outcome != neutral:
                return outcome
        return neutral

    def resolve(
        self, truth: Truth, preferred: Callable[[], bool], site: int, alike: bool = False
    ) -> "bool | Flags | None":
        """A truth by lanes, with the unknown parts that are the same in all lanes decided.

        ``None`` when a part is unknown and differs by lane; ``alike`` decides it as if it did not.
        """
        if isinstance(truth, bool | np.ndarray):
            return truth
        if not is_varying(truth):
            return self.decide(truth, preferred, site)
        if isinstance(truth, Comparison):
            return self.decide(truth, preferred, site) if alike else self.settled(truth)
        wanted = (lambda: not preferred()) if truth.operator == "not" else preferred
        parts: list[bool | Flags] = []
        for part in sorted(truth.parts, key=lambda part: not isinstance(part, np.ndarray)):
            known = self.resolve(part, wanted, site, alike)
            if known is None:
                return None
            parts.append(known)
        if truth.operator == "not":
            return self._domain.negate(parts[0])  # type: ignore[return-value]
        return self._domain.combine(truth.operator, parts[0], parts[1])  # type: ignore[return-value]

    def settled(self, truth: Truth) -> bool | None:
        """The outcome that earlier decisions imply, or ``None``."""
        if isinstance(truth, bool):
            return truth
        if isinstance(truth, np.ndarray):
            return None
        if isinstance(truth, Comparison):
            return self._settled_comparison(truth)
        known = self._known.get(self._domain.key(truth))
        if known is not None:
            return known
        parts = [self.settled(part) for part in truth.parts]
        if truth.operator == "not":
            return None if parts[0] is None else not parts[0]
        if truth.operator == "xor":
            return None if None in parts else parts[0] != parts[1]
        absorbing = truth.operator == "or"
        if absorbing in parts:
            return absorbing
        return None if None in parts else not absorbing

    def _settled_comparison(self, comparison: Comparison) -> bool | None:
        number = self.pinned(comparison.expression)
        if number is not None:
            return _by_range(_Range(0, 0), 1, number, comparison.relation)
        expression = self._simplified(comparison.expression)
        key, scale, constants = _linear_key(expression)
        known = self._ranges.get(key) or _initial_range(expression)
        outcomes = {_by_range(known, scale, constant, comparison.relation) for constant in constants}
        return outcomes.pop() if len(outcomes) == 1 else None

    def _assume(self, truth: Condition, outcome: bool) -> None:
        if isinstance(truth, Combination):
            self._known[self._domain.key(truth)] = outcome
            if truth.operator == "not":
                self._assume_part(truth.parts[0], not outcome)
            elif outcome == (truth.operator == "and") and truth.operator != "xor":
                for part in truth.parts:
                    self._assume_part(part, outcome)
            return
        expression = self._simplified(truth.expression)
        key, scale, constants = _linear_key(expression)
        known = self._ranges.setdefault(key, _initial_range(expression))
        for constant in constants:
            _narrow(known, scale, constant, truth.relation, outcome)
        if known.low == known.high:
            self._equations.append((dict(key), known.low))  # type: ignore[call-overload]
            self._solve()

    def _simplified(self, expression: Affine) -> Affine:
        """A sum with the atoms that are known by now put in; the range known so far goes along."""
        if not any(((atom.identity, 1),) in self._points for atom, _ in expression.terms):
            return expression
        kept = tuple(term for term in expression.terms if ((term[0].identity, 1),) not in self._points)
        if not kept:
            return expression
        shift = sum(
            factor * self._points[((atom.identity, 1),)]
            for atom, factor in expression.terms
            if ((atom.identity, 1),) in self._points
        )
        simpler = Affine(kept, expression.offset + shift)
        self._carry_range(expression, simpler, shift)
        return simpler

    def _carry_range(self, expression: Affine, simpler: Affine, shift: int) -> None:
        old_key, old_scale, _ = _linear_key(expression)
        known = self._ranges.pop(old_key, None)
        if known is None:
            return
        key, scale, _ = _linear_key(simpler)
        target = self._ranges.setdefault(key, _initial_range(simpler))
        # old_scale * s_old = scale * s_new + shift
        target.low = max(target.low, -((shift - known.low * old_scale) // scale))
        target.high = min(target.high, (known.high * old_scale - shift) // scale)
        for point in known.excluded:
            whole, rest = divmod(point * old_scale - shift, scale)
            if rest == 0:
                target.excluded.add(whole)
        _tighten(target)

    def _solve(self) -> None:
        """Put the known atoms into the known sums until no sum has a single unknown atom left."""
        changed = True
        while changed:
            changed = False
            left = []
            for terms, total in self._equations:
                unknown = {i: f for i, f in terms.items() if ((i, 1),) not in self._points}
                if len(unknown) == 1:
                    rest = sum(f * self._points[((i, 1),)] for i, f in terms.items() if i not in unknown)
                    ((identity, factor),) = unknown.items()
                    self._points[((identity, 1),)] = (total - rest) // factor
                    changed = True
                elif unknown:
                    left.append((terms, total))
            # A polled flag gives an equation an attempt: those that have nothing more to tell are not kept.
            self._equations = left

    def _assume_part(self, part: Truth, outcome: bool) -> None:
        if not isinstance(part, bool | np.ndarray) and self.settled(part) is None:
            self._assume(part, outcome)


def _only_input(expression: Affine) -> Hashable | None:
    if len(expression.terms) != 1 or not expression.terms[0][0].independent:
        return None
    return expression.terms[0][0].identity


def _text(truth: Condition) -> str:
    if isinstance(truth, Comparison):
        return f"{truth.expression!r} {truth.relation} 0"
    shown = [str(part) if isinstance(part, bool | np.ndarray) else _text(part) for part in truth.parts]
    return f"{truth.operator}({', '.join(shown)})"


def _linear_key(expression: Affine) -> tuple[Hashable, int, tuple[int, ...]]:
    """The sum without its constant, divided by its greatest divisor; that divisor; the constants."""
    divisor = 0
    for _, factor in expression.terms:
        divisor = gcd(divisor, factor)
    key = tuple((atom.identity, factor // divisor) for atom, factor in expression.terms)
    if isinstance(expression.offset, int):
        return key, divisor, (expression.offset,)
    return key, divisor, (int(expression.offset.min()), int(expression.offset.max()))


def _initial_range(expression: Affine) -> _Range:
    low = high = 0
    divisor = 0
    for _, factor in expression.terms:
        divisor = gcd(divisor, factor)
    for atom, factor in expression.terms:
        share = factor // divisor
        bounds = (
            -_UNBOUNDED if atom.low is None else atom.low * share,
            _UNBOUNDED if atom.high is None else atom.high * share,
        )
        if share < 0:
            bounds = (
                -_UNBOUNDED if atom.high is None else atom.high * share,
                _UNBOUNDED if atom.low is None else atom.low * share,
            )
        low, high = max(low + bounds[0], -_UNBOUNDED), min(high + bounds[1], _UNBOUNDED)
    return _Range(low, high)


def _by_range(known: _Range, scale: int, constant: int, relation: str) -> bool | None:
    """Whether ``scale * s + constant relation 0`` for every or for no ``s`` in the range."""
    if relation in ("eq", "ne"):
        if constant % scale:
            return relation == "ne"
        point = -constant // scale
        if point < known.low or point > known.high or point in known.excluded:
            return relation == "ne"
        return relation == "eq" if known.low == known.high else None
    if relation in ("gt", "le"):
        bound = -constant // scale  # s > -constant/scale  <=>  s > floor(-constant/scale)
        if known.low > bound:
            return relation == "gt"
        return relation == "le" if known.high <= bound else None
    bound = -(constant // scale)  # s >= -constant/scale  <=>  s >= ceil(-constant/scale)
    if known.low >= bound:
        return relation == "ge"
    return relation == "lt" if known.high < bound else None


def _narrow(known: _Range, scale: int, constant: int, relation: str, outcome: bool) -> None:
    holds = relation if outcome else INVERSE_RELATION[relation]
    if holds == "eq":
        known.low = known.high = -constant // scale
    elif holds == "ne":
        known.excluded.add(-constant // scale)
        _tighten(known)
    elif holds == "gt":
        known.low = max(known.low, -constant // scale + 1)
    elif holds == "le":
        known.high = min(known.high, -constant // scale)
    elif holds == "ge":
        known.low = max(known.low, -(constant // scale))
    else:
        known.high = min(known.high, -(constant // scale) - 1)


def _tighten(known: _Range) -> None:
    while known.low in known.excluded:
        known.low += 1
    while known.high in known.excluded:
        known.high -= 1
