"""The folder of a capture: what was kept, how it was launched, what the capture took.

``modules/`` holds what the driver loaded, named by content; ``compilers/`` what the compilers wrote;
``launch.toml`` what the launches of each kernel have in common, in the form that ``--launch`` reads.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULES_FOLDER = "modules"
LAUNCH_FILE = "launch.toml"
_FACTS = ("block", "cluster", "grid", "shared")


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """What the injection library wrote, over all processes.

    ``launches`` has one entry per kernel and shape; ``seconds_inside`` is the time spent in callbacks, in
    seconds; ``faults`` are the lines on what could not be captured.
    """

    launches: tuple[dict[str, Any], ...]
    modules: int
    callbacks: int
    seconds_inside: float
    processes: int
    faults: tuple[str, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The mangled names of the kernels that were launched, sorted."""
        return tuple(sorted({launch["kernel"] for launch in self.launches}))


def read_record(folder: Path) -> CaptureRecord:
    """What the library wrote below ``folder``; half a line of a killed process is passed over."""
    modules = folder / MODULES_FOLDER
    launches = [entry for path in sorted(modules.glob("launches-*.jsonl")) for entry in _lines(path)]
    stats = list(_lines(modules / "stats.jsonl"))
    faults = modules / "faults.txt"
    return CaptureRecord(
        launches=tuple(launches),
        modules=sum(1 for _ in modules.glob("*.cubin")),
        callbacks=sum(entry["callbacks"] for entry in stats),
        seconds_inside=sum(entry["seconds"] for entry in stats),
        processes=len(stats),
        faults=tuple(faults.read_text(errors="replace").splitlines()) if faults.is_file() else (),
    )


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.is_file():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def write_launches(folder: Path, record: CaptureRecord) -> Path | None:
    """Write ``launch.toml`` and return its path; ``None`` when nothing was launched."""
    text = launch_toml(record.launches)
    if not text:
        return None
    path = folder / LAUNCH_FILE
    path.write_text(text, encoding="utf-8")
    return path


def launch_toml(launches: Iterable[dict[str, Any]]) -> str:
    """For each kernel the facts that all its launches share: what differs is not a fact about the kernel."""
    by_kernel: dict[str, list[dict[str, Any]]] = {}
    for launch in launches:
        by_kernel.setdefault(launch["kernel"], []).append(launch)
    tables = [_table(name, shapes) for name, shapes in sorted(by_kernel.items())]
    return "\n".join(table for table in tables if table)


def _table(kernel: str, shapes: list[dict[str, Any]]) -> str:
    first = shapes[0]
    shared = {fact: first[fact] for fact in _FACTS if fact in first}
    common = {fact: value for fact, value in shared.items() if all(one.get(fact) == value for one in shapes)}
    if not common:
        return ""
    lines = ["[[launch]]", f"kernel = {json.dumps(f'^{re.escape(kernel)}$')}"]
    lines += [f"{'dynamic_shared' if fact == 'shared' else fact} = {value}" for fact, value in common.items()]
    return "\n".join(lines) + "\n"
