"""The command line: the only module that prints, exits or knows click.

Each command loads what it needs when it runs: an audit of a small cubin should take no longer than the
disassembler does, and loading everything (checks, report formats, terminal bars) takes as long again.
"""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ptxaudit import __version__
from ptxaudit.analysis.dump import DUMPERS, FORMATS
from ptxaudit.commands import (
    EXIT_BROKEN_PIPE,
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INPUT,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    Store,
    architecture_of,
    decided_run,
    exit_code,
    kernel_pattern,
    only_image,
    opened,
    read_code,
    settings_of,
    split_rules,
    store_of,
    with_caches,
)
from ptxaudit.engine.image import Found, KernelImage
from ptxaudit.engine.inputs import load_image
from ptxaudit.engine.selection import Selection
from ptxaudit.errors import InputError, PtxauditError, SyntaxFault, UsageError
from ptxaudit.frontends.nvrtc import DEFAULT_ARCHITECTURE, CompileOptions
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images, started_early
from ptxaudit.printable import log_line, log_lines
from ptxaudit.report.outputs import standard_output, write_comparison, write_reports
from ptxaudit.rules.model import Severity

if TYPE_CHECKING:
    from ptxaudit.analysis.context import FunctionAnalysis
    from ptxaudit.engine.audit import AuditRun
    from ptxaudit.engine.registry import Registry
    from ptxaudit.rules.code import FunctionCode

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run the command line and exit with the code that the contract states."""
    for number in _STOP_SIGNALS:
        signal.signal(number, _stopped)
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        _fail("interrupted", EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except click.ClickException as error:
        _fail(_one_line(error.format_message()), EXIT_INTERNAL)
    except (BrokenPipeError, _ClosedPipe):
        # Python would complain once more when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)
    except InputError as error:
        _fail(str(error), EXIT_INPUT)
    except PtxauditError as error:
        _fail(str(error), EXIT_INTERNAL)
    except Exception as error:
        if "--traceback" in sys.argv:
            _warn(traceback.format_exc())
        _fail(f"internal error: {type(error).__name__}: {_one_line(str(error))}", EXIT_INTERNAL)
    sys.exit(code if isinstance(code, int) else EXIT_CLEAN)


def _stopped(number: int, frame: FrameType | None) -> None:
    """End as for an error, so that temporary files and disassemblers go."""
    sys.exit(128 + number)


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


def _fail(message: str, code: int) -> NoReturn:
    _warn(f"ptxaudit: {message}")
    sys.exit(code)


def _warn(text: str) -> None:
    """Lines on standard error."""
    click.echo(log_lines(text), err=True)


def _one_line(message: str) -> str:
    return " ".join(message.split())


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ptxaudit")
def cli() -> None:
    """Audit the synchronisation in compiled GPU kernels (PTX and SASS)."""


_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# Options that several commands have.
_select_option: _Decorator = click.option(
    "--select", multiple=True, metavar="RULE", help="Only these rules (repeat, or use commas)."
)
_ignore_option: _Decorator = click.option(
    "--ignore", multiple=True, metavar="RULE", help="Not these rules (repeat, or use commas)."
)
_kernel_option: _Decorator = click.option(
    "--kernel", metavar="REGEX", help="Only functions whose (mangled or demangled) name matches."
)
_arch_option: _Decorator = click.option(
    "--arch", metavar="ARCH", help="Only functions built for this architecture, such as sm_90a."
)
_jobs_option: _Decorator = click.option(
    "--jobs", type=click.IntRange(min=0), default=0, help="Processes; 0 takes what pays off."
)


def _report_option(name: str, parameter: str, what: str) -> _Decorator:
    return click.option(
        name,
        parameter,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Write {what}.",
        callback=_no_dash,
    )


def _no_dash(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Standard output has the text: a report called ``-`` would be a file of that name."""
    if value is not None and str(value) == "-":
        raise click.UsageError(f"{parameter.opts[0]}: found -, expected a file (/dev/stdout is one)")
    return value


_FAIL_ON = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}


@cli.command("audit")
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@click.option(
    "--cache",
    "caches",
    multiple=True,
    metavar="NAME|PATH",
    help="Also what a compiler cached: triton, inductor, tilelang, cute, or a folder.",
)
@_report_option("--json", "json_file", "the JSON report")
@_report_option("--html", "html_file", "the HTML page")
@_report_option("--sarif", "sarif_file", "SARIF 2.1.0")
@_report_option("--junit", "junit_file", "JUnit XML")
@_report_option("--markdown", "markdown_file", "a summary in Markdown, for a pull request")
@click.option(
    "--format", "output", type=click.Choice(["text", "github"]), default="text", help="Standard output."
)
@click.option(
    "--fail-on",
    type=click.Choice(list(_FAIL_ON)),
    help="Exit 1 with a finding this bad or worse; default error.",
)
@click.option("--fail-on-unknown", is_flag=True, help="Exit 1 with a verdict that could not be decided.")
@click.option(
    "--baseline",
    "baseline_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Findings that are known: they are shown as suppressed and do not count.",
)
@click.option(
    "--write-baseline",
    "new_baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a baseline that knows what this audit found.",
)
@click.option(
    "--config",
    "settings_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings; default the nearest ptxaudit.toml or pyproject.toml with [tool.ptxaudit].",
)
@_select_option
@_ignore_option
@_kernel_option
@_arch_option
@click.option(
    "--list",
    "only_list",
    is_flag=True,
    help="Only list the kernels (with --json: as data), audit nothing.",
)
@click.option(
    "--relocatable",
    is_flag=True,
    help="Also code that is still to be linked, where a file has the linked code too.",
)
@click.option(
    "--assemble/--no-assemble",
    default=True,
    show_default=True,
    help="Have PTX assembled, so that its SASS is audited too.",
)
@click.option("--include", "-I", "includes", multiple=True, metavar="DIR", help="CUDA C++: headers.")
@click.option("--define", "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="CUDA C++: a macro.")
@click.option("--std", "standard", metavar="STANDARD", help="CUDA C++: the language standard, such as c++20.")
@_jobs_option
@click.option(
    "--launch",
    "launch_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML that says how kernels are launched (block, cluster, grid, arguments).",
)
@click.option("--strict", is_flag=True, help="Also report debatable notes of low confidence.")
@click.option(
    "--timings",
    is_flag=True,
    help="Print on standard error, and put into the JSON report, where processor time went.",
)
@click.option(
    "--store",
    "store_folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep results in this folder, so that what is unchanged is not audited again; default the user's.",
)
@click.option("--no-store", is_flag=True, help="Keep no results and use none.")
@click.option(
    "--store-size",
    "store_megabytes",
    type=click.IntRange(min=1),
    metavar="MB",
    help="Drop the longest unused results beyond this size; default 512.",
)
@click.option("--traceback", "show_traceback", is_flag=True, hidden=True)
def audit_command(
    inputs: tuple[str, ...],
    caches: tuple[str, ...],
    json_file: Path | None,
    html_file: Path | None,
    sarif_file: Path | None,
    junit_file: Path | None,
    markdown_file: Path | None,
    output: str,
    fail_on: str | None,
    fail_on_unknown: bool,
    baseline_file: Path | None,
    new_baseline: Path | None,
    settings_file: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    kernel: str | None,
    arch: str | None,
    only_list: bool,
    relocatable: bool,
    assemble: bool,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    standard: str | None,
    jobs: int,
    launch_file: Path | None,
    strict: bool,
    timings: bool,
    store_folder: Path | None,
    no_store: bool,
    store_megabytes: int | None,
    show_traceback: bool,
) -> int:
    """Audit every kernel in PTX files, cubins, fatbins, libraries, archives, wheels and directories.

    A `.cu` file is compiled (for --arch, sm_90a if that is not given), PTX is assembled.

    `-` is standard input.

    Exit codes: 0 clean, 1 findings at or above --fail-on, 2 usage or internal error, 3 an input could
    not be read (the others are audited).
    """
    settings = settings_of(settings_file)
    selection = Selection(kernel_pattern(kernel), architecture_of(arch))
    compilation = CompileOptions(includes, defines, standard, selection.architecture or DEFAULT_ARCHITECTURE)
    images = find_images(with_caches(inputs, caches), WalkOptions(selection, relocatable, compilation))
    if only_list:
        return _list(images, selection, json_file)
    run, registry = _audit(
        images,
        selection,
        select or settings.select,
        (*ignore, *settings.ignore),
        jobs,
        launch_file or settings.launch,
        strict or settings.strict,
        listings=html_file is not None or sarif_file is not None,
        code=html_file is not None,
        assemble=assemble,
        timings=timings,
        store=store_of(store_folder, store_megabytes, no_store),
    )
    run = decided_run(run, registry, settings, baseline_file or settings.baseline, new_baseline)
    threshold = _FAIL_ON[fail_on or settings.fail_on or "error"]
    places = {
        "json": json_file,
        "html": html_file,
        "sarif": sarif_file,
        "junit": junit_file,
        "markdown": markdown_file,
    }
    write_reports(places, run.report, registry, threshold, github=output == "github")
    _complain(run, show_traceback)
    if timings:
        from ptxaudit.report import timings as timings_report

        click.echo(timings_report.render(run.report), err=True)
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    _print(standard_output(run.report, output, color))
    return exit_code(run, threshold, fail_on_unknown or settings.fail_on_unknown)


def _audit(
    images: Iterator[Found],
    selection: Selection,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    jobs: int,
    launch_file: Path | None,
    strict: bool,
    count: bool = False,
    listings: bool = False,
    code: bool = False,
    assemble: bool = False,
    timings: bool = False,
    store: Store | None = None,
) -> "tuple[AuditRun, Registry]":
    from ptxaudit.engine.audit import AuditOptions, audit
    from ptxaudit.engine.launches import read_launches
    from ptxaudit.engine.registry import load_registry, select_rules

    registry = load_registry()
    options = AuditOptions(
        rules=select_rules(registry, split_rules(select), split_rules(ignore)),
        kernel=selection.kernel,
        architecture=selection.architecture,
        strict=strict,
        jobs=jobs,
        launches=() if launch_file is None else read_launches(launch_file),
        count=count,
        listings=listings,
        assemble=assemble,
        timings=timings,
        pack=_packing() if code else None,
    )
    with opened(store, options) as recall, _progress() as advance:
        known = None if recall is None else recall.has
        with started_early(images, known) as started:
            return audit(started, options, advance, recall), registry


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
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being audited, on standard error where that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # How many images a container holds is known when it was walked, which is when they are done.
    last = TextColumn("{task.description}", markup=False)  # names in brackets are names
    columns = (SpinnerColumn(), TextColumn("{task.completed} audited,"), last)
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda name: bar.update(task, advance=1, description=f"last {log_line(name)}")


def _complain(run: "AuditRun", show_traceback: bool) -> None:
    """One line on standard error for each input that failed, each internal error and each remark."""
    for remark in run.remarks:
        _warn(f"ptxaudit: {remark}")
    faults = {error.message for error in run.internal_errors}
    for one in run.report.inputs:
        if one.error is not None and one.error not in faults:
            _warn(f"ptxaudit: {one.error}")
    for error in run.internal_errors:
        _warn(f"ptxaudit: {error.message}")
        if show_traceback:
            _warn(error.traceback)


@cli.command("diff")
@click.argument("old")
@click.argument("new")
@_report_option("--json", "json_file", "the comparison as JSON")
@_report_option("--html", "html_file", "the comparison as an HTML page")
@_report_option("--markdown", "markdown_file", "the comparison in Markdown, for a pull request")
@click.option(
    "--fail-on",
    type=click.Choice(list(_FAIL_ON)),
    default="error",
    show_default=True,
    help="Exit 1 with a new finding this bad or worse.",
)
@_select_option
@_ignore_option
@_kernel_option
@_arch_option
@_jobs_option
@click.option(
    "--launch", "launch_file", type=click.Path(path_type=Path), metavar="FILE", help="As for audit."
)
@click.option("--strict", is_flag=True, help="Also compare debatable notes of low confidence.")
def diff_command(
    old: str,
    new: str,
    json_file: Path | None,
    html_file: Path | None,
    markdown_file: Path | None,
    fail_on: str,
    kernel: str | None,
    arch: str | None,
    **options: Any,
) -> int:
    """Compare two builds (files, libraries, directories): synchronisation, findings, verdicts, by kernel.

    Exit codes as for audit; 1 when the new build has a finding that the old one had not.
    """
    from ptxaudit.engine.audit import reaches
    from ptxaudit.engine.compare import compare
    from ptxaudit.report import compare_text

    selection = Selection(kernel_pattern(kernel), architecture_of(arch))
    runs = [
        _audit(find_images([side], WalkOptions(selection)), selection, count=True, **options)[0]
        for side in (old, new)
    ]
    for run in runs:
        _complain(run, show_traceback=False)
    comparison = compare(runs[0].report, runs[1].report)
    places = {"json": json_file, "markdown": markdown_file, "html": html_file}
    write_comparison(places, comparison, old, new)
    _say(compare_text.render_text(comparison))
    worst = max((read_code(run) for run in runs), key=(EXIT_CLEAN, EXIT_INPUT, EXIT_INTERNAL).index)
    worse = reaches(comparison.new_findings, _FAIL_ON[fail_on])
    return worst or (EXIT_FINDINGS if worse else EXIT_CLEAN)


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
@_report_option("--json", "json_file", "the JSON report")
@_report_option("--html", "html_file", "the HTML page")
@_report_option("--sarif", "sarif_file", "SARIF 2.1.0")
@click.option("--fail-on", type=click.Choice(list(_FAIL_ON)), help="As for audit.")
@_select_option
@_ignore_option
@_kernel_option
@_jobs_option
@click.option("--strict", is_flag=True, help="Also report debatable notes of low confidence.")
@click.pass_context
def capture_command(
    context: click.Context,
    /,
    command: tuple[str, ...],
    folder: Path,
    keep_caches: bool,
    no_audit: bool,
    **options: Any,
) -> int:
    """Run a program, keep every kernel that it compiles or loads, and audit them.

    Write `--` before COMMAND. Exits with the program's code when that is not 0, else as audit does; with 3
    when there was no kernel.
    """
    from ptxaudit.intake.live.program import run_captured

    run = run_captured(command, folder, fresh_caches=not keep_caches)
    for line in run.summary():
        _warn(f"ptxaudit: {line}")
    if no_audit:
        return run.exit_code
    if not any(isinstance(found, KernelImage) for found in find_images([str(folder)], WalkOptions())):
        message = f"{folder}: found no kernel there, expected one that the program loads or a compiler writes"
        _warn(f"ptxaudit: {message}")
        return run.exit_code or EXIT_INPUT
    audited = context.invoke(audit_command, inputs=(str(folder),), launch_file=run.launch_file, **options)
    return run.exit_code or int(audited)


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

    _say(explain_report.rule_table(load_patterns().values()))


@cli.command("explain")
@click.argument("rule")
def explain_command(rule: str) -> None:
    """Explain one rule: what is wrong, why, the fix, its limits, an example of each kind."""
    from ptxaudit.engine.registry import load_registry, require_rule
    from ptxaudit.report import explain as explain_report

    _say(explain_report.explain(require_rule(load_registry(), rule).pattern))


@cli.command("dump")
@click.argument("analysis", type=click.Choice(sorted(DUMPERS)))
@click.argument("input", metavar="INPUT")
@click.option("--format", "output", type=click.Choice(FORMATS), default="text", show_default=True)
@_kernel_option
def dump_command(analysis: str, input: str, output: str, kernel: str | None) -> None:
    """Print what an analysis knows of each function of INPUT."""
    from ptxaudit.analysis.dump import render_dump

    selection = Selection(kernel_pattern(kernel))
    _say(render_dump(analysis, output, _analyses(only_image(input, selection), selection)))


def _analyses(image: KernelImage, selection: Selection) -> "list[FunctionAnalysis]":
    try:
        module = load_image(image, None if selection.kernel is None else selection.takes_name)
    except SyntaxFault as error:
        _warn(error.excerpt())
        raise
    chosen = [function for function in module.functions if selection.takes_name(function.name)]
    if selection.kernel is not None and not chosen:
        raise UsageError(f"found no function that matches {selection}, expected at least one")
    from ptxaudit.analysis.context import FunctionAnalysis

    return [FunctionAnalysis(function, module) for function in chosen]
