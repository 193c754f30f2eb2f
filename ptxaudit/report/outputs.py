"""Reports to the places that were asked for; a format is loaded when it has one."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ptxaudit.errors import UsageError, internal_error, system_reason
from ptxaudit.report.write import write_report
from ptxaudit.rules.model import AuditReport, Severity

if TYPE_CHECKING:
    from ptxaudit.engine.compare import Comparison
    from ptxaudit.engine.registry import Rule


def write_reports(
    places: Mapping[str, Path],
    report: AuditReport,
    registry: "Mapping[str, Rule]",
    threshold: Severity | None,
    github: bool,
) -> tuple[str, ...]:
    """Write a report in each format that has a place; for ``github`` SARIF leaves suppressed results out.

    Returns a line for each that could not be written: the others are, and none is left half.
    """
    faults: list[str] = []
    for name, path in places.items():
        try:
            if name == "sarif":
                write_report(path, _sarif(path, report, registry, github))
            else:
                write_report(path, _rendered(name, report, registry, threshold))
        except UsageError as error:
            faults.append(str(error))
        except OSError as error:
            faults.append(f"{path}: {system_reason(error)}")
        except Exception as error:
            faults.append(f"--{name}: {internal_error(error)}")
    return tuple(faults)


def _sarif(path: Path, report: AuditReport, registry: "Mapping[str, Rule]", github: bool) -> str:
    """SARIF with the disassemblies that its places point into, written in a folder beside it."""
    from ptxaudit.report import sarif

    folder, written = path.with_name(f"{path.name}.disassembly"), {}
    for name, (file, text) in sarif.disassemblies(report).items():
        folder.mkdir(exist_ok=True)
        write_report(folder / file, text)
        written[name] = (folder / file).as_posix()
    patterns = {rule.id: rule.pattern for rule in registry.values()}
    return sarif.render(report, patterns, written, suppressed=not github)


def _rendered(
    name: str, report: AuditReport, registry: "Mapping[str, Rule]", threshold: Severity | None
) -> str | Iterable[str]:
    """A report in one of the formats that go to files."""
    if name == "json":
        from ptxaudit.report import json_report

        return json_report.chunks(report)
    if name == "junit":
        from ptxaudit.report import junit

        return junit.render(report, threshold)
    if name == "markdown":
        from ptxaudit.report import markdown

        return markdown.render(report)
    from ptxaudit.report import html

    return html.render(report, {rule.id: rule.pattern for rule in registry.values()})


def standard_output(report: AuditReport, output: str, color: bool) -> str:
    """What an audit prints: ``text`` or ``github``."""
    if output == "github":
        from ptxaudit.report import github

        return github.render(report)
    from ptxaudit.report import text

    return text.render(report, color)


def write_comparison(places: Mapping[str, Path], comparison: "Comparison", old: str, new: str) -> None:
    """Write a comparison in each format that has a place; the sides are called ``old`` and ``new``."""
    from ptxaudit.report import compare_text

    rendered: dict[str, Callable[[], str]] = {
        "json": lambda: compare_text.render_json(comparison),
        "markdown": lambda: compare_text.render_markdown(comparison),
        "html": lambda: _comparison_page(comparison, old, new),
    }
    for name, path in places.items():
        write_report(path, rendered[name]())


def _comparison_page(comparison: "Comparison", old: str, new: str) -> str:
    from ptxaudit.report import compare_html

    return compare_html.render(comparison, old, new)
