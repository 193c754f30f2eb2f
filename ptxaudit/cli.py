"""The command line: the only module that prints, exits or knows click.

Each command loads what it needs when it runs: an audit of a small cubin should take no longer than the
disassembler does, and loading everything (checks, report formats, terminal bars) takes as long again.
"""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from ptxaudit import __version__
from ptxaudit.analysis.dump import DUMPERS, FORMATS
from ptxaudit.commands import (
    COST_DUMP,
    EXIT_BROKEN_PIPE,
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INPUT,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_STOPPED,
    Reached,
    audit_options,
    decided_run,
    dump_cost,
    exit_code,
    images_of,
    kernel_pattern,
    limits_of,
    only_image,
    opened,
    read_code,
    selection_of,
    settings_of,
)
from ptxaudit.engine.image import Found, KernelImage
from ptxaudit.engine.inputs import load_image
from ptxaudit.engine.progress import SILENT, Progress
from ptxaudit.engine.selection import Selection
from ptxaudit.errors import (
    InputError,
    PtxauditError,
    Stopped,
    SyntaxFault,
    UsageError,
    internal_error,
    system_reason,
)
from ptxaudit.frontends.nvrtc import DEFAULT_ARCHITECTURE, CompileOptions
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images, started_early
from ptxaudit.limits import in_force
from ptxaudit.options import (
    FAIL_ON,
    Inputs,
    Policy,
    Reports,
    Scope,
    Shown,
    assemble_option,
    comparison_report_options,
    complete_rules,
    functions_options,
    input_options,
    json_report_option,
    kernel_option,
    policy_options,
    report_options,
    require_own_files,
    require_writable,
    scope_options,
    shown_options,
    written_files,
)
from ptxaudit.printable import log_lines
from ptxaudit.report.outputs import standard_output, write_comparison, write_reports

if TYPE_CHECKING:
    from ptxaudit.analysis.context import FunctionAnalysis
    from ptxaudit.engine.audit import AuditRun
    from ptxaudit.rules.code import FunctionCode

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run the command line and exit with the code that the contract states."""
    for number in _STOP_SIGNALS:
        signal.signal(number, _stopped)
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        _fail("interrupted", EXIT_INTERRUPTED)
    except Stopped as stopped:
        sys.exit(EXIT_STOPPED + stopped.number)
    except click.ClickException as error:
        _fail(_one_line(error.format_message()), EXIT_INTERNAL)
    except (BrokenPipeError, _ClosedPipe):
        _drop_output()
        sys.exit(EXIT_BROKEN_PIPE)
    except InputError as error:
        _fail(str(error), EXIT_INPUT)
    except PtxauditError as error:
        _fail(str(error), EXIT_INTERNAL)
    except _FullOutput as error:
        _drop_output()
        _fail(str(error), EXIT_INTERNAL)
    except Exception as error:
        if "--traceback" in sys.argv:
            _warn(traceback.format_exc())
        _fail(internal_error(error), EXIT_INTERNAL)
    sys.exit(code if isinstance(code, int) else EXIT_CLEAN)


def _drop_output() -> None:
    """What is left in the buffer goes nowhere: Python would try, and complain, once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stopped(number: int, frame: FrameType | None) -> None:
    """End as for an error, so that temporary files and disassemblers go."""
    raise Stopped(number)


class _FullOutput(Exception):
    """Standard output cannot be written, for want of space for one."""


class _ClosedPipe(Exception):
    """The reader of standard output went away. Click would exit with 1 on the BrokenPipeError itself."""


def _say(text: str) -> None:
    """Print lines of which some hold text of inputs."""
    _print(log_lines(text))


def _print(text: str) -> None:
    """Print what is safe in a terminal and in the log of a CI job already."""
    try:
        click.echo(text, nl=not text.endswith("\n"))
    except BrokenPipeError as error:
        raise _ClosedPipe from error
    except OSError as error:
        raise _FullOutput(f"standard output: {system_reason(error)}") from error


def _fail(message: str, code: int) -> NoReturn:
    _warn(f"ptxaudit: {message}")
    sys.exit(code)


def _warn(text: str) -> None:
    """Lines on standard error."""
    click.echo(log_lines(text), err=True)


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _colored() -> bool:
    """Whether what is printed may have colours: on a terminal, unless the user says no (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ptxaudit")
@click.pass_context
def cli(context: click.Context) -> None:
    """Audit the synchronisation in compiled GPU kernels (PTX and SASS)."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(EXIT_INTERNAL)


@cli.command("audit")
@click.argument("arguments", nargs=-1, metavar="INPUT...")
@click.option(
    "--list",
    "only_list",
    is_flag=True,
    help="Only list the kernels (with --json: as data), audit nothing.",
)
@report_options
@policy_options
@scope_options
@input_options
@shown_options
def audit_command(
    arguments: tuple[str, ...],
    only_list: bool,
    inputs: Inputs,
    scope: Scope,
    reports: Reports,
    policy: Policy,
    shown: Shown,
) -> int:
    """Audit every kernel in PTX files, cubins, fatbins, libraries, archives, wheels and directories.

    A `.cu` file is compiled (for --arch, sm_90a if that is not given), PTX is assembled.

    `-` is standard input.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 usage or internal error, 3 an input could
    not be read or a function not in full (the others are audited), or there was no kernel; 130, 141 and
    128 + n when ended before that, by Ctrl-C, a closed pipe or signal n.
    """
    written = written_files(reports, policy)
    require_own_files(written)
    require_writable(written)
    selection = selection_of(scope)
    compilation = CompileOptions(
        inputs.includes, inputs.defines, inputs.standard, selection.architecture or DEFAULT_ARCHITECTURE
    )
    walk = WalkOptions(selection, inputs.relocatable, compilation)
    if only_list:
        for name in written:
            if name != "json":
                raise UsageError(f"--{name}: found it beside --list, which audits nothing, expected --json")
        _, images = images_of(arguments, inputs.caches, walk)
        with in_force(limits_of(settings_of(policy.config), scope.limits)):
            return _list(images, selection, reports.json)
    return _audit(arguments, inputs.caches, walk, scope, reports, policy, shown)


def _audit(
    arguments: tuple[str, ...],
    caches: tuple[str, ...],
    walk: WalkOptions,
    scope: Scope,
    reports: Reports,
    policy: Policy,
    shown: Shown,
    more_launches: tuple[Path, ...] = (),
) -> int:
    """Audit, write and print the reports; the exit code."""
    from ptxaudit.engine.audit import audit
    from ptxaudit.engine.screening import is_worth_scanning

    settings = settings_of(policy.config)
    reached = Reached()
    paths, images = images_of(arguments, caches, walk, reached.barren)
    options, registry = audit_options(scope, settings, more_launches)
    options = replace(
        options,
        listings=reports.html is not None or reports.sarif is not None,
        assemble=shown.assemble,
        scan=shown.scan,
        scheduler=shown.scheduler,
        timings=shown.timings,
        pack=None if reports.html is None else _packing(),
        budget=reports.json is not None or reports.html is not None,
        partial=True,
    )
    with opened(shown.store, options) as recall, _progress(paths) as progress, in_force(options.limits):

        def unneeded(image: KernelImage) -> bool:
            elsewhere = options.scheduler is not None or is_worth_scanning(image, options)
            return elsewhere or (recall is not None and recall.has(image))

        with started_early(images, unneeded) as started:
            run = audit(started, options, reached.noting(progress), recall)
    run = reached.told(run, paths)
    run = decided_run(run, registry, settings, policy.baseline or settings.baseline, policy.write_baseline)
    threshold = FAIL_ON[policy.fail_on or settings.fail_on or "error"]
    github = shown.output == "github"
    unwritten = write_reports(reports.places(), run.report, registry, threshold, github)
    # A person at a terminal reads what could not be read in the report that follows.
    told = shown.output == "text" and sys.stdout.isatty() and sys.stderr.isatty()
    _complain(run, shown.traceback, inputs=not told)
    if shown.timings:
        from ptxaudit.report import timings as timings_report

        click.echo(timings_report.render(run.report), err=True)
    _print(standard_output(run.report, shown.output, _colored()))
    for line in unwritten:
        _warn(f"ptxaudit: {line}")
    if unwritten and run.stopped is None:
        return EXIT_INTERNAL
    if policy.write_baseline is not None:
        threshold = None  # all of them are known from now on
        if run.stopped is None:
            _warn(f"ptxaudit: {policy.write_baseline}: written; what was found is known from now on")
    return exit_code(run, threshold, policy.fail_on_unknown or settings.fail_on_unknown)


def _packing() -> "Callable[[FunctionCode], bytes]":
    """How a page keeps a function's code; only an audit that writes one loads it."""
    from ptxaudit.report.codepage import pack_code

    return pack_code


def _list(images: Iterator[Found], selection: Selection, json_file: Path | None) -> int:
    from ptxaudit.engine.listing import list_images
    from ptxaudit.report import listing as listing_report

    listing = list_images(images, selection, lambda one: _say(listing_report.image(one)))
    for error in listing.errors:
        _warn(f"ptxaudit: {error}")
    if json_file is not None:
        from ptxaudit.report.write import write_report

        write_report(json_file, listing_report.render(listing))
    _say(listing_report.summary(listing))
    return EXIT_INPUT if listing.errors else EXIT_CLEAN


@contextlib.contextmanager
def _progress(paths: Iterable[str]) -> Iterator[Progress]:
    """Shows how far an audit is, on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield SILENT
        return
    from ptxaudit.progress import shown_progress

    with shown_progress(paths) as progress:
        yield progress


def _complain(run: "AuditRun", show_traceback: bool = False, inputs: bool = True) -> None:
    """One line on standard error for each remark, each input that failed and each internal error."""
    for remark in run.remarks:
        _warn(f"ptxaudit: {remark}")
    faults = {error.message for error in run.internal_errors}
    for one in run.report.inputs if inputs else ():
        if one.error is not None and one.error not in faults:
            _warn(f"ptxaudit: {one.error}")
    for error in run.internal_errors:
        _warn(f"ptxaudit: {error.message}")
        if show_traceback:
            _warn(error.traceback)


@cli.command("diff")
@click.argument("old")
@click.argument("new")
@comparison_report_options
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    help="Exit 1 with a new finding this bad or worse (default: that of the settings, else error).",
)
@assemble_option
@scope_options
def diff_command(
    old: str, new: str, reports: Reports, fail_on: str | None, assemble: bool, scope: Scope
) -> int:
    """Compare two builds (files, libraries, directories): synchronisation, findings, verdicts, by kernel.

    PTX is assembled, so that registers and accesses of local memory (spills) are compared, too.

    Exit codes as for audit; 1 when the new build has a finding that the old one had not. What the project's
    settings say of findings holds here, too.
    """
    from ptxaudit.engine.audit import audit, reaches
    from ptxaudit.engine.compare import compare
    from ptxaudit.report import compare_text

    require_own_files(reports.places())
    require_writable(reports.places())
    selection = selection_of(scope)
    settings = settings_of(None)
    options, registry = audit_options(scope, settings)
    options = replace(options, count=True, budget=True, listings=False, assemble=assemble)
    runs = []
    for side in (old, new):
        with _progress([side]) as progress, in_force(options.limits):
            run = audit(find_images([side], WalkOptions(selection)), options, progress)
            runs.append(decided_run(run, registry, settings, settings.baseline, None))
        _complain(runs[-1])
        read = [one for one in runs[-1].report.inputs if one.error is None]
        if read and not runs[-1].report.functions:
            _warn(f"ptxaudit: {side}: found no kernel, expected some to compare")
    worst = max((read_code(run) for run in runs), key=(EXIT_CLEAN, EXIT_INPUT, EXIT_INTERNAL).index)
    if not all(run.report.functions for run in runs) and worst != EXIT_CLEAN:
        return worst  # without one of the sides there is nothing to compare
    comparison = compare(runs[0].report, runs[1].report)
    write_comparison(reports.places(), comparison, old, new)
    _say(compare_text.render_text(comparison))
    worse = reaches(comparison.new_findings, FAIL_ON[fail_on or settings.fail_on or "error"])
    return worst or (EXIT_FINDINGS if worse else EXIT_CLEAN)


@cli.command("cost")
@click.argument("arguments", nargs=-1, metavar="INPUT...")
@click.option(
    "--roles/--no-roles",
    default=True,
    show_default=True,
    help="Execute each kernel, so that the warps which pay are known.",
)
@json_report_option
@functions_options
@input_options
@shown_options
def cost_command(
    arguments: tuple[str, ...], roles: bool, inputs: Inputs, scope: Scope, reports: Reports, shown: Shown
) -> int:
    """Print what the synchronisation of every kernel costs: by loop and place, what it waits for and forces.

    Cycles are by measurements of the kernel's architecture; where there are none, places are ranked by those
    of sm_90. PTX is assembled, and its SASS priced.

    Exit codes as for audit; findings are not looked for.
    """
    from ptxaudit.engine.audit import audit
    from ptxaudit.report import cost_text

    selection = selection_of(scope)
    compilation = CompileOptions(
        inputs.includes, inputs.defines, inputs.standard, selection.architecture or DEFAULT_ARCHITECTURE
    )
    walk = WalkOptions(selection, inputs.relocatable, compilation)
    paths, images = images_of(arguments, inputs.caches, walk)
    options, registry = audit_options(scope, settings_of(None))
    options = replace(
        options,
        rules=(),
        listings=False,
        assemble=shown.assemble,
        timings=shown.timings,
        budget=True,
        roles=roles,
        scan=False,
        partial=True,
    )
    with opened(shown.store, options) as recall, _progress(paths) as progress, in_force(options.limits):
        known = None if recall is None else recall.has
        with started_early(images, known) as started:
            run = audit(started, options, progress, recall)
    unwritten = write_reports(reports.places(), run.report, registry, None, False)
    _complain(run, shown.traceback)
    _print(cost_text.render(run.report, _colored()))
    for line in unwritten:
        _warn(f"ptxaudit: {line}")
    return EXIT_INTERNAL if unwritten and run.stopped is None else exit_code(run, None, False)


@cli.command("capture", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENT]...")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="A new folder for the kernels.",
)
@click.option("--keep-caches", is_flag=True, help="Leave the compilers their caches, and so out of it.")
@click.option("--no-audit", is_flag=True, help="Only keep the kernels.")
@report_options
@policy_options
@scope_options
@shown_options
def capture_command(
    command: tuple[str, ...],
    folder: Path,
    keep_caches: bool,
    no_audit: bool,
    reports: Reports,
    policy: Policy,
    scope: Scope,
    shown: Shown,
) -> int:
    """Run a program, keep every kernel that it compiles or loads, and audit them.

    Write `--` before COMMAND. How kernels were launched is known, --launch comes before it. Exits with the
    program's code when that is not 0 (128 and the signal's number when a signal ended it), else as audit
    does; with 3 when there was no kernel.
    """
    from ptxaudit.intake.live.program import run_captured

    require_own_files(written_files(reports, policy))
    require_writable(written_files(reports, policy))
    walk = WalkOptions(selection_of(scope))
    run = run_captured(command, folder, fresh_caches=not keep_caches)
    for line in run.summary():
        _warn(f"ptxaudit: {line}")
    if no_audit:
        return run.exit_code
    if not any(isinstance(found, KernelImage) for found in find_images([str(folder)], WalkOptions())):
        message = f"{folder}: found no kernel there, expected one that the program loads or a compiler writes"
        _warn(f"ptxaudit: {message}")
        return run.exit_code or EXIT_INPUT
    launches = () if run.launch_file is None else (run.launch_file,)
    audited = _audit((str(folder),), (), walk, scope, reports, policy, shown, launches)
    return run.exit_code or audited


@cli.command("integration")
@click.argument("system", type=click.Choice(["cmake"]))
def integration_command(system: str) -> None:
    """Print where the files for a build system are: the folder for CMAKE_MODULE_PATH."""
    from ptxaudit import integrations

    _say(str(Path(integrations.__file__).parent))


@cli.command("rules")
def rules_command() -> None:
    """List the rules."""
    from ptxaudit.report import explain as explain_report
    from ptxaudit.rules.pattern import load_patterns

    _print(explain_report.rule_table(load_patterns().values(), _colored()))


@cli.command("explain")
@click.argument("rule", shell_complete=complete_rules)
def explain_command(rule: str) -> None:
    """Explain one rule: what is wrong, why, the fix, its limits, an example of each kind."""
    from ptxaudit.engine.registry import load_registry, require_rule
    from ptxaudit.report import explain as explain_report

    _print(explain_report.explain(require_rule(load_registry(), rule).pattern, _colored()))


@cli.command("dump")
@click.argument("analysis", type=click.Choice(sorted((*DUMPERS, COST_DUMP))))
@click.argument("input", metavar="INPUT")
@click.option("--format", "output", type=click.Choice(FORMATS), default="text", show_default=True)
@kernel_option
def dump_command(analysis: str, input: str, output: str, kernel: str | None) -> None:
    """Print what an analysis knows of each function of INPUT."""
    from ptxaudit.analysis.dump import render_dump

    selection = Selection(kernel_pattern(kernel))
    analyses = _analyses(only_image(input, selection), selection)
    _say(dump_cost(output, analyses) if analysis == COST_DUMP else render_dump(analysis, output, analyses))


def _analyses(image: KernelImage, selection: Selection) -> "list[FunctionAnalysis]":
    try:
        module = load_image(image, selection.name_filter)
    except SyntaxFault as error:
        _warn(error.excerpt())
        raise
    chosen = [function for function in module.functions if selection.takes_name(function.name)]
    if selection.kernel is not None and not chosen:
        raise UsageError(selection.no_match({one.name: {""} for one in module.functions}))
    from ptxaudit.analysis.context import FunctionAnalysis

    return [FunctionAnalysis(function, module) for function in chosen]
