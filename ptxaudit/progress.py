"""The progress bar: what is being audited, how much of the inputs is done, how fast, what time is left."""

import contextlib
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from ptxaudit.engine.progress import Progress
from ptxaudit.intake.extent import Extent
from ptxaudit.printable import log_line

_LONGEST_NAME, _SHORTEST_NAME = 60, 14
# The bar, numbers and times beside a name. Where all does not fit into a line, times would be cut off.
_BESIDE = 66


class _Rate(ProgressColumn):
    """Images a minute and what is left of the time."""

    def render(self, task: Task) -> Text:
        """Nothing until there is something to tell them by."""
        part = task.percentage / 100 if task.total else 0.0
        return Text(rate(task.fields["images"], part, task.elapsed or 0.0))


@contextlib.contextmanager
def shown_progress(paths: Iterable[str]) -> Iterator[Progress]:
    """What an audit of these files and folders reports its progress to, drawn on standard error."""
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[images]} done,"),
        TimeElapsedColumn(),
        _Rate(),
        TextColumn("{task.description}", markup=False),  # names in brackets are names
    )
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("looking for kernels", total=None, images=0)
        extent = Extent(paths)
        bar.update(task, total=max(extent.total, 1))
        done = 0

        def started(name: str) -> None:
            bar.update(task, description=abridged(log_line(name), console.width))

        def finished(name: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, images=done, completed=extent.position(name))

        yield Progress(started, finished)


def rate(images: int, part: float, seconds: float) -> str:
    """How fast it goes and how long it takes; ``part`` of the bytes (0 to 1) is done after ``seconds``."""
    if not images or seconds < 1:
        return ""
    said = f"{images / seconds * 60:.0f}/min"
    if not 0 < part < 1:
        return said
    left = round(seconds * (1 - part) / part)
    return f"{said}, about {left // 60}:{left % 60:02} left"


def abridged(name: str, width: int) -> str:
    """The end of a long name, which tells images of one container apart, for a terminal of this width."""
    longest = min(_LONGEST_NAME, max(_SHORTEST_NAME, width - _BESIDE))
    return name if len(name) <= longest else f"\N{HORIZONTAL ELLIPSIS}{name[1 - longest :]}"
