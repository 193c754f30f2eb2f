"""Where the time of an audit went, as text: stages, and the inputs that took longest."""

from collections.abc import Iterator

from ptxaudit.rules.model import AuditReport
from ptxaudit.stopwatch import Timings

_SHOWN_INPUTS = 10
_SHOWN_STAGES = 3


def render(report: AuditReport) -> str:
    """A line for each stage, then one for each of the slowest inputs; empty without timings."""
    return "\n".join([*_stages(report.timings), *_inputs(report)])


def _stages(timings: Timings) -> Iterator[str]:
    total = sum(timings.values())
    if total <= 0:
        return
    yield f"{total:9.2f} s of processor time"
    for stage, seconds in timings.items():
        yield f"{seconds:9.2f} s {seconds / total:4.0%}  {stage}"


def _inputs(report: AuditReport) -> Iterator[str]:
    slowest = sorted((-sum(one.timings.values()), one.path) for one in report.inputs if one.timings)
    timings = {one.path: one.timings for one in report.inputs}
    for seconds, path in slowest[:_SHOWN_INPUTS]:
        stages = sorted(timings[path].items(), key=lambda one: -one[1])[:_SHOWN_STAGES]
        yield f"{-seconds:9.2f} s  {path}: {', '.join(f'{stage} {taken:.2f}' for stage, taken in stages)}"
