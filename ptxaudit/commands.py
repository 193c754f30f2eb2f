"""What the commands do between reading their options and printing: what an option means, exit codes."""

import contextlib
import datetime
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ptxaudit.arch import Architecture, parse_architecture
from ptxaudit.engine.image import BrokenImage, Found, KernelImage
from ptxaudit.engine.progress import Progress
from ptxaudit.engine.selection import Selection
from ptxaudit.errors import InputError, Stopped, UnsupportedArchitecture, UsageError
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.limits import NAMES, Limits
from ptxaudit.rules.model import Severity
from ptxaudit.words import counted

if TYPE_CHECKING:
    from ptxaudit.analysis.context import FunctionAnalysis
    from ptxaudit.engine.audit import AuditOptions, AuditRun
    from ptxaudit.engine.recall import Recall
    from ptxaudit.engine.registry import Registry
    from ptxaudit.engine.settings import Settings
    from ptxaudit.options import Scope, Store

COST_DUMP = "cost"
EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_INTERNAL = 2
EXIT_INPUT = 3
EXIT_STOPPED = 128  # and the number of the signal
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
_COUNTING_SECONDS = 2.0


def settings_of(path: Path | None) -> "Settings":
    """The settings of a file, or of the nearest one when none is named."""
    from ptxaudit.engine.settings import find_settings, read_settings

    return find_settings(Path.cwd()) if path is None else read_settings(path)


def decided_run(
    run: "AuditRun",
    registry: "Registry",
    settings: "Settings",
    baseline_file: Path | None,
    new_baseline: Path | None,
) -> "AuditRun":
    """The run as the project has decided about its findings; writes the new baseline, if one is asked for."""
    from ptxaudit.engine.adoption import IN_BASELINE, Decisions, decided
    from ptxaudit.engine.baseline import read_baseline, render_baseline

    # A baseline that is written anew does not count, and need not be there yet.
    anew = baseline_file is None or _is_same(baseline_file, new_baseline)
    baseline = None if baseline_file is None or anew else read_baseline(baseline_file)
    report = decided(run.report, Decisions(settings, registry, baseline, datetime.date.today()))
    # One of a part of the findings would forget the others.
    if new_baseline is not None and run.stopped is None:
        from ptxaudit.report.write import write_report

        mine = [finding for finding in report.findings if finding.suppressed in (None, IN_BASELINE)]
        write_report(new_baseline, render_baseline(mine))
    return replace(run, report=report)


def _is_same(path: Path, other: Path | None) -> bool:
    return other is not None and os.path.realpath(path) == os.path.realpath(other)


@contextlib.contextmanager
def opened(store: "Store | None", options: "AuditOptions") -> "Iterator[Recall | None]":
    """The results of earlier audits for one with these options; nothing without a store."""
    if store is None:
        yield None
        return
    from platformdirs import user_cache_path

    from ptxaudit.engine.recall import Recall
    from ptxaudit.engine.store import DEFAULT_MEGABYTES, ResultStore

    folder = store.folder or user_cache_path("ptxaudit")
    with contextlib.closing(ResultStore(folder, store.megabytes or DEFAULT_MEGABYTES)) as results:
        yield Recall(results, options)


def split_rules(values: tuple[str, ...]) -> list[str]:
    """Rule ids, given one by one or with commas between them."""
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def rules_like(begun: str) -> list[str]:
    """What a list of rules with commas that is ``begun`` can go on with: its last rule in full."""
    from ptxaudit.rules.pattern import pattern_files

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{rule}" for rule in pattern_files() if rule.startswith(last)]


def kernel_pattern(pattern: str | None) -> re.Pattern[str] | None:
    """The regular expression of ``--kernel``. Raises :class:`UsageError`."""
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--kernel: found {pattern!r}, expected a regular expression ({error})") from error


def architecture_of(name: str | None) -> Architecture | None:
    """The architecture of ``--arch``. Raises :class:`UsageError`."""
    if name is None:
        return None
    try:
        return parse_architecture(name)
    except UnsupportedArchitecture as error:
        raise UsageError(f"--arch: {error}") from error


def selection_of(scope: "Scope") -> Selection:
    """Which functions are asked for. Raises :class:`UsageError`."""
    return Selection(kernel_pattern(scope.kernel), architecture_of(scope.arch))


def audit_options(
    scope: "Scope", settings: "Settings | None" = None, more_launches: Iterable[Path] = ()
) -> "tuple[AuditOptions, Registry]":
    """What an audit is asked, and every rule there is. Raises :class:`UsageError`.

    ``settings`` count where the scope says nothing; ``more_launches`` are files that the user's launches go
    before.
    """
    from ptxaudit.engine.audit import AuditOptions
    from ptxaudit.engine.launches import read_launches
    from ptxaudit.engine.registry import load_registry, select_rules
    from ptxaudit.engine.settings import Settings

    known = settings or Settings()
    registry = load_registry()
    known.require_known(registry)
    selection = selection_of(scope)
    own = scope.launch or known.launch
    files = (*([] if own is None else [own]), *more_launches)
    options = AuditOptions(
        rules=select_rules(
            registry, split_rules(scope.select or known.select), split_rules((*scope.ignore, *known.ignore))
        ),
        kernel=selection.kernel,
        architecture=selection.architecture,
        strict=scope.strict or known.strict,
        jobs=scope.jobs,
        launches=tuple(launch for file in files for launch in read_launches(file)),
        limits=limits_of(known, scope.limits),
        thresholds=known.set_thresholds,
    )
    return options, registry


def limits_of(settings: "Settings", given: tuple[str, ...]) -> Limits:
    """The limits of the settings, and those of ``--limit NAME=NUMBER``. Raises :class:`UsageError`."""
    values = dict(settings.limits)
    for text in given:
        name, _, number = text.partition("=")
        if name not in NAMES or not re.fullmatch(r"[1-9][0-9]{0,15}", number):
            expected = f"NAME=NUMBER with NAME one of {', '.join(NAMES)} and NUMBER a whole number from 1"
            raise UsageError(f"--limit: found {text!r}, expected {expected}")
        values[name] = int(number)
    return Limits().changed(values)


def images_of(
    arguments: tuple[str, ...],
    caches: tuple[str, ...],
    options: WalkOptions,
    barren: set[Path] | None = None,
) -> tuple[tuple[str, ...], Iterator[Found]]:
    """The files and folders that are read, and the images in them; ``barren`` gets the files without any.

    What ``--cache`` names and is not there is an input that cannot be read, as is a missing file. Raises
    :class:`UsageError` when nothing is named at all.
    """
    if not arguments and not caches:
        raise UsageError("found no input, expected INPUT... or --cache")
    folders: tuple[str, ...] = ()
    missing: tuple[BrokenImage, ...] = ()
    if caches:
        from ptxaudit.intake.caches import cache_folders

        folders, missing = cache_folders(caches)
    paths = (*arguments, *folders)
    return paths, itertools.chain(find_images(paths, options, barren), missing)


class Reached:
    """What an audit got to, so that one that is interrupted can say how much it did not."""

    def __init__(self) -> None:
        self.barren: set[Path] = set()
        self._names: list[str] = []

    def noting(self, progress: Progress) -> Progress:
        """The same progress, with what is done noted here."""

        def finished(name: str) -> None:
            self._names.append(name)
            progress.finished(name)

        return Progress(progress.started, finished)

    def told(self, run: "AuditRun", paths: tuple[str, ...]) -> "AuditRun":
        """The run; of one that was interrupted the report says how many files of ``paths`` are left.

        It does not where they are so many that counting them takes long: who interrupts does not wait.
        """
        if run.stopped is None:
            return run
        from ptxaudit.intake.extent import files_left

        with contextlib.suppress(KeyboardInterrupt, Stopped):
            left = files_left(paths, self._names, self.barren, _COUNTING_SECONDS)
            if left:
                said = f"{run.report.interrupted}, with {counted(left, 'file')} not audited"
                return replace(run, report=replace(run.report, interrupted=said))
        return run


def only_image(argument: str, selection: Selection) -> KernelImage:
    """The one image that an argument stands for; of several the one with the kernel that is asked for."""
    from ptxaudit.engine.summary import is_asked_for, summarise

    chosen: list[KernelImage] = []
    offered: dict[str, set[str]] = {}
    for found in find_images([argument], WalkOptions()):
        if isinstance(found, BrokenImage):
            raise InputError(found.message)
        if isinstance(found, KernelImage):
            summary = None if selection.kernel is None else summarise(found)
            if summary is not None and not is_asked_for(summary, selection):
                offered |= {name: {""} for name in (*summary.kernels, *summary.functions)}
                continue
            chosen.append(found)
            if len(chosen) > 1:
                places = f"{chosen[0].name} and {chosen[1].name}"
                raise UsageError(f"{argument}: found {places}, expected one (see --kernel)")
    if not chosen:
        raise UsageError(f"{argument}: {selection.no_match(offered)}")
    return chosen[0]


def read_code(run: "AuditRun") -> int:
    """The exit code for faults of ptxaudit and of inputs, and for an audit that was stopped."""
    if run.stopped is not None:
        return EXIT_STOPPED + run.stopped
    if run.internal_errors:
        return EXIT_INTERNAL
    unread = any(one.error is not None for one in run.report.inputs)
    unread = unread or any(one.incomplete is not None for one in run.report.functions)
    nothing = not run.report.functions
    return EXIT_INPUT if unread or nothing else EXIT_CLEAN


def exit_code(run: "AuditRun", threshold: Severity | None, fail_on_unknown: bool) -> int:
    """The exit code of an audit."""
    code = read_code(run)
    if code != EXIT_CLEAN:
        return code
    from ptxaudit.engine.audit import is_undecided, reaches

    failing = reaches(run.report.findings, threshold) or (fail_on_unknown and is_undecided(run.report))
    return EXIT_FINDINGS if failing else EXIT_CLEAN


def dump_cost(output: str, analyses: "Iterable[FunctionAnalysis]") -> str:
    """The synchronisation budgets of functions, without roles; raises :class:`UsageError` for ``dot``."""
    from ptxaudit.cost.budget import budget
    from ptxaudit.report import budgets

    if output == "dot":
        raise UsageError("found --format dot for cost, expected text or json (dot is for cfg)")
    if output == "json":
        functions = [{"name": one.function.name, **budgets.document(budget(one))} for one in analyses]
        return json.dumps({"functions": functions}, indent=1)
    texts = (f"{one.function.demangled}:\n" + "\n".join(budgets.lines(budget(one))) for one in analyses)
    return "\n\n".join(texts)
