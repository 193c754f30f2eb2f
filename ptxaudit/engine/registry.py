"""Joins each rule's pattern, ``patterns/<category>/<id>.toml``, with its check in ``ptxaudit.checks``."""

import difflib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.errors import PatternError, UsageError
from ptxaudit.ir.traits import Trait
from ptxaudit.rules.model import Outcome
from ptxaudit.rules.pattern import Pattern, load_shipped_pattern, pattern_files
from ptxaudit.rules.thresholds import Thresholds

Check = Callable[[FunctionAnalysis], Outcome]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and the check that decides it."""

    pattern: Pattern
    check: Check

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.pattern.id

    def judge(self, analysis: FunctionAnalysis, thresholds: Thresholds) -> Outcome:
        """What the check says of a function by these thresholds."""
        if isinstance(self.check, ShippedCheck):
            return self.check.by(analysis, thresholds)
        return self.check(analysis)


def check_module_name(rule_id: str) -> str:
    """The module that holds a rule's check."""
    return f"ptxaudit.checks.{rule_id.replace('-', '_')}"


@dataclass(frozen=True, slots=True)
class ShippedCheck:
    """The check of a rule of this installation, loaded when it is first needed.

    Where results are known from an earlier audit no check is, and loading all takes longer than that.
    """

    rule: str

    def load(self) -> Check:
        """The function."""
        check: Check = _load_module(self.rule).check
        return check

    @property
    def needs(self) -> tuple[Trait, ...]:
        """What a SASS function has one of at least, unless the rule is not applicable to it."""
        needs: tuple[Trait, ...] = _load_module(self.rule).NEEDS
        return needs

    @property
    def thresholds(self) -> tuple[str, ...]:
        """The thresholds that the check itself goes by; those of costs are applied to what it finds."""
        names: tuple[str, ...] = getattr(_load_module(self.rule), "THRESHOLDS", ())
        return names

    def by(self, analysis: FunctionAnalysis, thresholds: Thresholds) -> Outcome:
        """What the check says of a function by these thresholds."""
        check: Callable[..., Outcome] = self.load()
        return check(analysis, thresholds) if self.thresholds else check(analysis)

    def __call__(self, analysis: FunctionAnalysis) -> Outcome:
        """What the check says of a function by the thresholds of the pattern."""
        return self.by(analysis, load_shipped_pattern(pattern_files()[self.rule]).defaults)


def load_checks(rules: Iterable[Rule]) -> None:
    """Load the checks of rules that are about to be asked."""
    for rule in rules:
        if isinstance(rule.check, ShippedCheck):
            rule.check.load()


class Registry(Mapping[str, Rule]):
    """Rules by id, in report order; each is loaded when it is asked for.

    Asking raises :class:`PatternError` for a pattern that is wrong or without a check.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._rules: dict[str, Rule] = {}

    def __getitem__(self, rule_id: str) -> Rule:
        if rule_id not in self._rules:
            path = self._files[rule_id]
            self._rules[rule_id] = Rule(load_shipped_pattern(path), _shipped_check(rule_id))
        return self._rules[rule_id]

    def __contains__(self, rule_id: object) -> bool:
        return rule_id in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def load_registry() -> Registry:
    """All rules of this installation."""
    return Registry(pattern_files())


def _shipped_check(rule_id: str) -> ShippedCheck:
    name = check_module_name(rule_id)
    if importlib.util.find_spec(name) is None:
        raise PatternError(f"rule {rule_id}: found a pattern, expected a check in {name}")
    return ShippedCheck(rule_id)


@cache
def _load_module(rule_id: str) -> ModuleType:
    return importlib.import_module(check_module_name(rule_id))


def needs_of(rule: Rule) -> tuple[Trait, ...] | None:
    """What a SASS function has one of at least where a rule is applicable to it; ``None``: not known."""
    return rule.check.needs if isinstance(rule.check, ShippedCheck) else None


def select_rules(
    registry: Mapping[str, Rule], select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """The rules named by ``select`` (all when empty) less those of ``ignore``, in registry order.

    Raises :class:`UsageError` for an id that does not exist, with those that look alike, and when no
    rule is left.
    """
    wanted, unwanted = list(select), set(ignore)
    for rule_id in [*wanted, *sorted(unwanted)]:
        require_rule(registry, rule_id)
    chosen = tuple(
        registry[rule_id]
        for rule_id in registry
        if (not wanted or rule_id in wanted) and rule_id not in unwanted
    )
    if not chosen:
        raise UsageError("found no rule left by --select and --ignore, expected at least one")
    return chosen


def require_rule(registry: Mapping[str, Rule], rule_id: str) -> Rule:
    """The rule of this id, or :class:`UsageError` naming close matches."""
    if rule_id in registry:
        return registry[rule_id]
    close = difflib.get_close_matches(rule_id, registry, n=3, cutoff=0.5)
    close += [known for known in registry if rule_id and rule_id in known and known not in close][:3]
    hint = f"did you mean {', '.join(close)}?" if close else "`ptxaudit rules` lists them"
    raise UsageError(f"found unknown rule {rule_id!r}; {hint}")
