"""The thresholds that a project has set, for all kernels and for some."""

import difflib
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ptxaudit.engine.registry import Rule
from ptxaudit.rules.pattern import Pattern
from ptxaudit.rules.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class KernelThresholds:
    """Thresholds by rule of the kernels whose name ``match`` finds."""

    match: re.Pattern[str]
    rules: Mapping[str, Thresholds]


@dataclass(frozen=True, slots=True)
class SetThresholds:
    """Thresholds by rule, and those of kernels, which go first; of several the one that stands first."""

    rules: Mapping[str, Thresholds] = field(default_factory=dict)
    kernels: tuple[KernelThresholds, ...] = ()

    def of(self, pattern: Pattern, names: tuple[str, ...]) -> Thresholds:
        """The thresholds of a rule as they hold for a kernel of these (mangled, demangled) names."""
        values = {**pattern.defaults, **self.rules.get(pattern.id, {})}
        for kernel in reversed(self.kernels):
            if any(map(kernel.match.search, names)):
                values.update(kernel.rules.get(pattern.id, {}))
        return values

    def identity(self) -> str:
        """A text that is the same for the same thresholds."""
        return repr((self.rules, [(one.match.pattern, one.rules) for one in self.kernels]))

    def fault(self, registry: Mapping[str, Rule]) -> str | None:
        """What is wrong with them, with the key: a threshold that the rule has not, or a number that it
        cannot be."""
        for kernel, rule_id, name, value in self._each():
            key = f"thresholds.{rule_id}.{name}"
            key = key if kernel is None else f"kernel {kernel!r}: {key}"
            known = registry[rule_id].pattern.thresholds
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {close[0]}?" if close else f"the rule has {', '.join(known) or 'none'}"
                return f"{key}: found an unknown threshold; {hint}"
            fault = known[name].fault(value)
            if fault is not None:
                return f"{key}: {fault} ({known[name].unit})"
        return None

    def changes(self, registry: Mapping[str, Rule], rules: AbstractSet[str]) -> list[str]:
        """A phrase for each threshold of these rules that is set to another number than its default."""
        said = []
        for kernel, rule_id, name, value in self._each():
            default = registry[rule_id].pattern.defaults[name]
            if rule_id in rules and value != default:
                where = "" if kernel is None else f" in kernels that match {kernel!r}"
                said.append(f"{rule_id}.{name} = {value:g} (default {default:g}){where}")
        return said

    def _each(self) -> Iterator[tuple[str | None, str, str, float]]:
        """The expression for the kernels, the rule, the threshold and its number."""
        tables: list[tuple[str | None, Mapping[str, Thresholds]]] = [(None, self.rules)]
        tables += [(one.match.pattern, one.rules) for one in self.kernels]
        for kernel, rules in tables:
            for rule_id, values in rules.items():
                for name, value in values.items():
                    yield kernel, rule_id, name, value


DEFAULTS = SetThresholds()
