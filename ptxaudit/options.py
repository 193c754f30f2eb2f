"""The options of the commands, in groups that several commands share.

A group is a dataclass with a field for each of its options; its decorator adds the options to a command,
which gets them as one value.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from ptxaudit.commands import rules_like
from ptxaudit.errors import UsageError
from ptxaudit.rules.model import Severity

FAIL_ON = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}
_STORE, _NO_STORE = "PTXAUDIT_STORE", "PTXAUDIT_NO_STORE"
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _group(parameter: str, group: type, *options: _Decorator) -> _Decorator:
    """Give a command these options as one value of ``group`` in its parameter."""
    names = [field.name for field in fields(group)]

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def packed(*arguments: Any, **values: Any) -> Any:
            chosen = {name: values.pop(name) for name in names if name in values}
            return command(*arguments, **values, **{parameter: group(**chosen)})

        optioned: Callable[..., Any] = packed
        for option in reversed(options):
            optioned = option(optioned)
        return optioned

    return decorated


def _file_option(name: str, parameter: str, help_text: str) -> _Decorator:
    return click.option(
        name, parameter, type=click.Path(path_type=Path), metavar="FILE", help=help_text, callback=_no_dash
    )


def _no_dash(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Standard output has the text: a report called ``-`` would be a file of that name."""
    if value is not None and str(value) == "-":
        raise click.UsageError(f"{parameter.opts[0]}: found -, expected a file (/dev/stdout is one)")
    return value


def complete_rules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The rule ids that a shell offers for what is typed so far."""
    return rules_like(incomplete)


@dataclass(frozen=True, slots=True)
class Reports:
    """The files that reports are written to; ``None`` where one is not asked for."""

    json: Path | None = None
    html: Path | None = None
    sarif: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None

    def places(self) -> dict[str, Path]:
        """The reports that are asked for, by the names of their options."""
        asked = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: path for name, path in asked if path is not None}


def require_own_files(places: dict[str, Path]) -> None:
    """Raise :class:`UsageError` where two of the files to be written are the same."""
    taken: dict[str, str] = {}
    for name, path in places.items():
        if path.exists() and not path.is_file():
            continue  # a device or a pipe takes one after the other
        first = taken.setdefault(os.path.realpath(path), name)
        if first != name:
            raise UsageError(f"--{first} and --{name}: found {path} for both, expected a file for each")


def require_writable(places: dict[str, Path]) -> None:
    """Raise :class:`UsageError` where a file cannot be written, before time is spent on what goes into it."""
    for name, path in places.items():
        in_place = path.exists() and not path.is_file() and not path.is_dir()
        folder = Path(os.path.realpath(path)).parent
        if path.is_dir():
            found = "a directory"
        elif not folder.is_dir():
            found = f"no directory {folder}"
        elif not os.access(path if in_place else folder, os.W_OK):
            found = f"no permission to write {'it' if in_place else f'in {folder}'}"
        else:
            continue
        raise UsageError(f"--{name} {path}: found {found}, expected a file that can be written")


_json_report = _file_option("--json", "json", "Write the JSON report.")
_html_report = _file_option("--html", "html", "Write the HTML page.")
json_report_option = _group("reports", Reports, _json_report)
_markdown_report = _file_option("--markdown", "markdown", "Write a summary in Markdown, for a pull request.")
report_options = _group(
    "reports",
    Reports,
    _json_report,
    _html_report,
    _file_option("--sarif", "sarif", "Write SARIF 2.1.0."),
    _file_option("--junit", "junit", "Write JUnit XML."),
    _markdown_report,
)
comparison_report_options = _group("reports", Reports, _json_report, _html_report, _markdown_report)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at, and by which rules."""

    kernel: str | None
    arch: str | None
    jobs: int
    launch: Path | None
    limits: tuple[str, ...]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    strict: bool = False


kernel_option = click.option(
    "--kernel", metavar="REGEX", help="Only functions whose (mangled or demangled) name matches."
)
_functions_options = (
    kernel_option,
    click.option(
        "--arch", metavar="ARCH", help="Only functions built for this architecture, such as sm_90a."
    ),
    click.option("--jobs", type=click.IntRange(min=0), default=0, help="Processes; 0 takes what pays off."),
    _file_option(
        "--launch", "launch", "TOML that says how kernels are launched (block, cluster, grid, arguments)."
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=NUMBER",
        help="What an input may cost, such as kernel-seconds=600; the settings have the same under limits.",
    ),
)
scope_options = _group(
    "scope",
    Scope,
    click.option(
        "--select",
        multiple=True,
        metavar="RULE",
        help="Only these rules (repeat, or use commas).",
        shell_complete=complete_rules,
    ),
    click.option(
        "--ignore",
        multiple=True,
        metavar="RULE",
        help="Not these rules (repeat, or use commas).",
        shell_complete=complete_rules,
    ),
    *_functions_options,
    click.option("--strict", is_flag=True, help="Also report debatable notes of low confidence."),
)
functions_options = _group("scope", Scope, *_functions_options)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a project makes of findings: what is known, what fails. ``None`` leaves it to the settings."""

    fail_on: str | None
    fail_on_unknown: bool
    baseline: Path | None
    write_baseline: Path | None
    config: Path | None


policy_options = _group(
    "policy",
    Policy,
    click.option(
        "--fail-on",
        type=click.Choice(list(FAIL_ON)),
        help="Exit 1 with a finding this bad or worse; default error.",
    ),
    click.option("--fail-on-unknown", is_flag=True, help="Exit 1 with a verdict that could not be decided."),
    _file_option(
        "--baseline", "baseline", "Findings that are known: they are shown as suppressed and do not count."
    ),
    _file_option("--write-baseline", "write_baseline", "Write a baseline that knows what this audit found."),
    _file_option(
        "--config",
        "config",
        "Settings; default the nearest ptxaudit.toml or pyproject.toml with [tool.ptxaudit].",
    ),
)


@dataclass(frozen=True, slots=True)
class Store:
    """Where results are kept, and how many megabytes of them; ``None`` for the defaults."""

    folder: Path | None
    megabytes: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """How the audit works and what it prints: ``output`` is ``text`` or ``github``."""

    output: str
    assemble: bool
    scan: bool
    scheduler: str | None
    timings: bool
    traceback: bool
    store_folder: Path | None
    store_megabytes: int | None
    no_store: bool

    @property
    def store(self) -> Store | None:
        """What the options, or the environment where they say nothing, want of a store."""
        if self.no_store or (self.store_folder is None and os.environ.get(_NO_STORE)):
            return None
        named = os.environ.get(_STORE)
        return Store(self.store_folder or (Path(named) if named else None), self.store_megabytes)


assemble_option = click.option(
    "--assemble/--no-assemble",
    default=True,
    show_default=True,
    help="Have PTX assembled, so that its SASS is audited too.",
)
shown_options = _group(
    "shown",
    Shown,
    click.option(
        "--format", "output", type=click.Choice(["text", "github"]), default="text", help="Standard output."
    ),
    assemble_option,
    click.option(
        "--scan/--no-scan",
        default=True,
        show_default=True,
        help="Leave SASS unread that has no opcode which a selected rule is about; reports are the same.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Audit on the workers of a Dask cluster: its scheduler's address or file (extra `dask`).",
    ),
    click.option(
        "--timings",
        is_flag=True,
        help="Print on standard error, and put into the JSON report, where processor time went.",
    ),
    click.option("--traceback", is_flag=True, hidden=True),
    click.option(
        "--store",
        "store_folder",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Keep results in this folder, so that what is unchanged is not audited again; default the "
        "user's.",
    ),
    click.option("--no-store", is_flag=True, help="Keep no results and use none."),
    click.option(
        "--store-size",
        "store_megabytes",
        type=click.IntRange(min=1),
        metavar="MB",
        help="Drop the longest unused results beyond this size; default 512.",
    ),
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is read, beside the arguments, and how: caches, unlinked code, the compilation of CUDA C++."""

    caches: tuple[str, ...]
    relocatable: bool
    includes: tuple[str, ...]
    defines: tuple[str, ...]
    standard: str | None


input_options = _group(
    "inputs",
    Inputs,
    click.option(
        "--cache",
        "caches",
        multiple=True,
        metavar="NAME|PATH",
        help="Also what a compiler cached: triton, inductor, tilelang, cute, or a folder.",
    ),
    click.option(
        "--relocatable",
        is_flag=True,
        help="Also code that is still to be linked, where a file has the linked code too.",
    ),
    click.option("--include", "-I", "includes", multiple=True, metavar="DIR", help="CUDA C++: headers."),
    click.option(
        "--define", "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="CUDA C++: a macro."
    ),
    click.option(
        "--std", "standard", metavar="STANDARD", help="CUDA C++: the language standard, such as c++20."
    ),
)


def written_files(reports: Reports, policy: Policy) -> dict[str, Path]:
    """Every file that an audit writes, by the names of the options."""
    baseline = policy.write_baseline
    return reports.places() | ({} if baseline is None else {"write-baseline": baseline})
