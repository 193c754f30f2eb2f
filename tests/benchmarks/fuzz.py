"""Coverage-guided fuzzing of the parsers: ``fuzz.py [TARGET ...] [--seconds 60] [--jobs 1] [--keep DIR]``.

Needs ``pip install atheris``. Targets are the functions of ``TARGETS``, all of them where none is named: what
each may raise is an error of ptxaudit. Everything else is a fault: one of Python is counted by where it was
raised, and its first input kept in ``--keep``; a crash, more than ten seconds or 1 GiB for an input ends a
run, which is then started anew. ``--jobs`` processes share the targets by their weights, each for
``--seconds``; those of one target share what they find. Seeds are the fixtures and ``--corpus DIR``; texts
are mutated by their words, JSON by its values, everything by its bytes. It prints executions, edges and
features as libFuzzer counts them, and writes them to ``--totals FILE``. Run by hand, with ``nice``.
"""

import argparse
import contextlib
import copy
import functools
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

from container_builders import CUBIN, FIXTURES
from hostile import seeds

LARGEST = 1 << 16
LARGEST_TEXT = 1 << 13
MEGABYTES = 1024
SECONDS = 10
MOST_RESTARTS = 20

with atheris.instrument_imports(include=["ptxaudit", "elftools"]):
    from ptxaudit.engine.audit import AuditOptions, audit
    from ptxaudit.engine.baseline import read_baseline
    from ptxaudit.engine.image import KernelImage, Place, image_of
    from ptxaudit.engine.launches import read_launches
    from ptxaudit.engine.recall import Recall
    from ptxaudit.engine.registry import load_registry, select_rules
    from ptxaudit.engine.results import ImageResult
    from ptxaudit.engine.settings import read_settings
    from ptxaudit.engine.store import ResultStore
    from ptxaudit.errors import InputError, PtxauditError
    from ptxaudit.frontends.ptx import load_ptx
    from ptxaudit.frontends.ptx_summary import summarise_ptx
    from ptxaudit.frontends.sass.disassemble import parse_listing
    from ptxaudit.frontends.sass.elf import read_cubin, read_debug_lines, read_header
    from ptxaudit.frontends.sass.load import lowered_functions
    from ptxaudit.frontends.sass.lower import Lowering
    from ptxaudit.frontends.sass.screen import opcode_counts
    from ptxaudit.frontends.sass.summary import summarise_cubin, symbols_by_section
    from ptxaudit.frontends.sass.tools import find_tool
    from ptxaudit.intake.fatbins import WalkOptions
    from ptxaudit.intake.metadata import launches_beside
    from ptxaudit.intake.walk import Part, walk
    from ptxaudit.source import SourceText

_SCRATCH = Path(tempfile.gettempdir(), f"ptxaudit-fuzz-{os.getpid()}")


def ptx(data: bytes) -> None:
    """The PTX front end, from text to the intermediate representation."""
    summarise_ptx(data)
    load_ptx(SourceText("fuzz.ptx", data.decode("utf-8", "replace")))


def cubin(data: bytes) -> None:
    """The ELF file of a cubin: header, tables, notes, opcodes, line tables."""
    with contextlib.suppress(InputError):
        summarise_cubin(data, "fuzz.cubin")
    header = read_header(data, "fuzz.cubin")
    symbols_by_section(data, "fuzz.cubin")
    read = read_cubin(data, "fuzz.cubin", header)
    for code in read.code.values():
        opcode_counts(code)
    read_debug_lines(data, "fuzz.cubin")


def containers(data: bytes) -> None:
    """Fatbins, host ELF files, archives, zips, whatever is nested in them."""
    names: Counter[str] = Counter()
    for found in walk(Part(io.BytesIO(data), Place(("fuzz",)), WalkOptions())):
        names[str(getattr(found, "place", ""))] += 1
        if isinstance(found, KernelImage):
            assert found.sha256


def listing(data: bytes) -> None:
    """What nvdisasm prints, lowered to the intermediate representation."""
    sections = parse_listing(data, "fuzz.cubin")
    whole = read_cubin(CUBIN, "fuzz.cubin", read_header(CUBIN, "fuzz.cubin"))
    lowered_functions(sections, whole, "fuzz.cubin", Lowering("fuzz.cubin", whole.architecture))


def _file(name: str, data: bytes) -> Path:
    _SCRATCH.mkdir(exist_ok=True)
    path = _SCRATCH / name
    path.write_bytes(data)
    return path


def settings(data: bytes) -> None:
    """ptxaudit.toml."""
    read_settings(_file("ptxaudit.toml", data))


def baseline(data: bytes) -> None:
    """A baseline."""
    read_baseline(_file("baseline.json", data))


def launches(data: bytes) -> None:
    """--launch."""
    read_launches(_file("launch.toml", data))


def metadata(data: bytes) -> None:
    """What a compiler writes about a launch beside a kernel."""
    _file("kernel.json", data)
    _file("host_kernel.cu", data)
    launches_beside(_file("kernel.cubin", b""))


def store(data: bytes) -> None:
    """The file of kept results: read, written and read again; what is there is what was written."""
    folder = _file("results.sqlite", data).parent
    for name in ("results.sqlite-wal", "results.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)
    kept = ResultStore(folder)
    kept.get("first")
    kept.put("second", b"content")
    # Where the file turns out to be damaged on the way, it is started anew.
    assert kept.get("second") in (b"content", None)
    kept.close()


class _Shelf(ResultStore):
    """A store that has one content for whatever is asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.trouble = None

    def get(self, key: str) -> bytes | None:
        """The content."""
        return self.content

    def put(self, key: str, content: bytes) -> None:
        """Keep a content."""
        self.content = content


@functools.cache
def _options() -> AuditOptions:
    rules = select_rules(load_registry(), select=("divergent-barrier", "l1-invalidate-in-poll-loop"))
    return AuditOptions(rules, jobs=1, assemble=False)


@functools.cache
def _image() -> KernelImage:
    return image_of("mailbox.ptx", (FIXTURES / "cubin" / "mailbox.ptx").read_bytes())


def results(data: bytes) -> None:
    """A kept result: of ours, or taken for none."""
    known = Recall(_Shelf(data), _options()).known((_image(),))
    assert known is None or all(isinstance(one, ImageResult) for one in known)


_TOML = (
    b'select = ["a"]\nfail-on = "never"\n[severity]\na = "note"\n[[suppress]]\nrule = "a"\nreason = "b"\n',
    b'baseline = "b.json"\nignore = ["b"]\n[limits]\nkernel-seconds = 3\n[[suppress]]\nrule = "a"\n'
    b'kernel = "k.*"\nreason = "b"\nuntil = 2027-01-31\n',
    b'[[launch]]\nkernel = "a.*"\nblock = [1, 2, 3]\ncluster = [2, 1, 1]\ngrid = [4, 1, 1]\n'
    b"[launch.arguments]\n2 = 4\n",
)
_JSON = (
    b'{"version": 1, "findings": [{"fingerprint": "00", "rule": "a", "function": "k", "opcode": "bar",'
    b' "message": "m"}]}',
    b'{"name": "k", "num_warps": 4, "num_ctas": 1, "cluster_dims": [1, 1, 1], "shared": 1024,'
    b' "target": {"backend": "cuda", "arch": 90, "warp_size": 32}}',
)


def _listings() -> Iterable[bytes]:
    """What the disassembler prints of the smallest cubins."""
    small = sorted((one.content for one in seeds(None) if one.kind == "cubin"), key=len)[:12]
    for number, content in enumerate(small):
        path = _file(f"{number}.cubin", content)
        tool = [find_tool("nvdisasm"), "-json", path]
        printed = subprocess.run(tool, capture_output=True, check=True).stdout
        document = json.loads(printed)
        for entry in document[1]:
            entry["sass-instructions"] = entry["sass-instructions"][:40]
        yield json.dumps(document).encode()


def _stores() -> Iterable[bytes]:
    folder = _file("results.sqlite", b"").parent
    (folder / "results.sqlite").unlink()
    kept = ResultStore(folder)
    kept.put("first", b"some content " * 20)
    kept.close()
    yield (folder / "results.sqlite").read_bytes()


def _results() -> Iterable[bytes]:
    for name in ("mailbox.ptx", "dispatch.ptx"):
        image = image_of(name, (FIXTURES / "cubin" / name).read_bytes())
        shelf = _Shelf(b"")
        audit([image], _options(), recall=Recall(shelf, _options()))
        if not shelf.content:
            raise SystemExit(f"the audit of {name} is not kept")
        yield shelf.content
    yield b'["t",1,"text",["d","key",["b","dmFsdWU="]]]'


def _of_kind(*kinds: str) -> Callable[[Path | None], Iterable[bytes]]:
    return lambda corpus: [one.content for one in seeds(corpus) if one.kind in kinds]


Mutate = Callable[[bytes, random.Random, tuple[bytes, ...]], bytes]
_MOST_WORDS = 20_000
_WORD = re.compile(rb"\s+|[.%$@_]?\w[\w.:]*|.", re.DOTALL)


def _by_words(data: bytes, draw: random.Random, pool: tuple[bytes, ...]) -> bytes:
    """Some words of a text left out, doubled, exchanged or taken from another seed."""
    words = _WORD.findall(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        if not 0 < len(words) < _MOST_WORDS:
            break
        at, size = draw.randrange(len(words)), draw.choice((1, 1, 2, 5, 20))
        match draw.randrange(5):
            case 0:
                del words[at : at + size]
            case 1:
                words[at:at] = words[at : at + size] * draw.choice((1, 1, 3, 50))
            case 2:
                other = draw.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case _:
                others = _words_of(draw.choice(pool))
                start = draw.randrange(len(others))
                words[at : at + draw.choice((0, size))] = others[start : start + size]
    return b"".join(words)


@functools.cache
def _words_of(text: bytes) -> list[bytes]:
    return _WORD.findall(text) or [b" "]


_VALUES = (None, True, 0, -1, 1 << 31, 1 << 63, 1e308, float("nan"), "", "\x1b", [], {}, [[]], {"": 0})


def _by_values(data: bytes, draw: random.Random, pool: tuple[bytes, ...]) -> bytes:
    """A value somewhere in a JSON document replaced, left out, doubled, or its text mutated by words."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = json.loads(draw.choice(pool))
    for _ in range(draw.choice((1, 1, 2, 4))):
        holders = _holders(document)
        if len(holders) > _MOST_WORDS:
            break
        if not holders:
            return json.dumps(draw.choice(_VALUES)).encode()
        holder = draw.choice(holders)
        key = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        value = holder[key]
        match draw.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder[key:key] = [copy.deepcopy(value) for _ in range(draw.choice((1, 1, 3, 30)))]
            case 1:
                holder[f"{key}x"] = copy.deepcopy(value)
            case 2 | 3 if isinstance(value, str):
                others = (draw.choice(_texts(draw.choice(pool))),)
                holder[key] = _by_words(value.encode("utf-8", "replace"), draw, others).decode(
                    "utf-8", "replace"
                )
            case _:
                # What stands at two places is changed at both, and may come to hold itself.
                holder[key] = copy.deepcopy(draw.choice(_VALUES))
    return json.dumps(document).encode()


def _holders(document: Any) -> list[Any]:
    found, left = [], [document]
    while left:
        one = left.pop()
        if isinstance(one, (dict, list)) and one:
            found.append(one)
            left.extend(one.values() if isinstance(one, dict) else one)
    return found


@functools.cache
def _texts(data: bytes) -> list[bytes]:
    """The texts in a JSON document."""
    found = [b"x"]
    for one in _holders(json.loads(data)):
        values = one.values() if isinstance(one, dict) else one
        found += [value.encode() for value in values if isinstance(value, str)]
    return found


@dataclass(frozen=True, slots=True)
class Target:
    """A parser, what it is fed with, how texts of it are mutated, and its share of the processes."""

    read: Callable[[bytes], None]
    seeds: Callable[[Path | None], Iterable[bytes]]
    mutate: Mutate | None = None
    weight: int = 1
    largest: int = LARGEST


TARGETS = {
    "ptx": Target(ptx, _of_kind("ptx"), _by_words, 4, LARGEST_TEXT),
    "cubin": Target(cubin, _of_kind("cubin"), None, 2),
    "containers": Target(containers, _of_kind("fatbin", "archive", "wheel", "host ELF"), None, 3),
    "listing": Target(listing, lambda _: _listings(), _by_values, 2),
    "settings": Target(settings, lambda _: _TOML, _by_words),
    "launches": Target(launches, lambda _: _TOML, _by_words),
    "baseline": Target(baseline, lambda _: _JSON, _by_values),
    "metadata": Target(metadata, lambda _: _JSON, _by_values),
    "store": Target(store, lambda _: _stores()),
    "results": Target(results, lambda _: _results()),
}


def fuzz(name: str, given: argparse.Namespace) -> None:
    """Fuzz one target in this process; libFuzzer prints and exits."""
    target = TARGETS[name]
    folder = given.work / name
    pool = tuple(one for one in target.seeds(given.corpus) if len(one) <= target.largest)
    if not pool:
        raise SystemExit(f"found no seeds of {name} in {FIXTURES}")
    for number, content in enumerate(pool):
        (folder / "seeds" / str(number)).write_bytes(content)
    met: set[str] = set()

    def one(data: bytes) -> None:
        try:
            target.read(data)
        except PtxauditError as error:
            # The line that a user reads.
            if "\n" in str(error).strip():
                _note_fault(name, error, data, met, given.keep)
        except Exception as error:
            _note_fault(name, error, data, met, given.keep)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if target.mutate is None or draw.random() < 0.3:
            return bytes(atheris.Mutate(data, most))
        return target.mutate(data, draw, pool)[:most]

    options = [
        f"-max_total_time={given.seconds}",
        f"-seed={given.seed}",
        f"-max_len={target.largest}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={given.keep}/{name}-",
        "-print_final_stats=1",
        "-len_control=0",
        str(folder / "found"),
        str(folder / "seeds"),
    ]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutated)
    atheris.Fuzz()


def _note_fault(name: str, error: Exception, data: bytes, met: set[str], keep: Path) -> None:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "ptxaudit" in one.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    signature = f"{type(error).__name__} at {place}"
    if signature not in met:
        met.add(signature)
        stem = f"{name}-python-{zlib.crc32(signature.encode()):08x}"
        (keep / stem).write_bytes(data)
        (keep / f"{stem}.txt").write_text("".join(traceback.format_exception(error)))
        print(f"\nFAULT {signature}: {' '.join(str(error).split())[:200]}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Total:
    """What the runs of one target came to."""

    executions: int = 0
    seconds: float = 0.0
    edges: int = 0
    features: int = 0
    megabytes: int = 0
    slowest: int = 0
    faults: Counter[str] = field(default_factory=Counter)


_STATE = re.compile(r"^#(\d+)\t.*?cov: (\d+) ft: (\d+)", re.MULTILINE)
_PULSE = re.compile(r"^#(\d+)\t", re.MULTILINE)
_STAT = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)
_ENDS = re.compile(r"ERROR: libFuzzer: (.*)|ERROR: \w+Sanitizer: (.*)")


def _add(total: Total, printed: str, code: int) -> None:
    states = _STATE.findall(printed)
    stats = dict(_STAT.findall(printed))
    pulses = _PULSE.findall(printed)
    total.executions += int(stats.get("number_of_executed_units", pulses[-1] if pulses else 0))
    total.edges = max([total.edges, *(int(state[1]) for state in states)])
    total.features = max([total.features, *(int(state[2]) for state in states)])
    total.megabytes = max(total.megabytes, int(stats.get("peak_rss_mb", 0)))
    total.slowest = max(total.slowest, int(stats.get("slowest_unit_time_sec", 0)))
    total.faults.update(f"FAULT {one}" for one in re.findall(r"^FAULT (.*)", printed, re.MULTILINE))
    ended = _ENDS.search(printed)
    if ended is not None:
        total.faults[(ended[1] or ended[2]).strip()] += 1
    elif code != 0:
        total.faults[f"exit status {code}: {printed.strip().splitlines()[-1][:200] if printed else ''}"] += 1


def _run(name: str, number: int, given: argparse.Namespace, total: Total) -> None:
    """Fuzz a target in processes of its own until its time is over."""
    log = given.keep / f"{name}-{number}.log"
    started = time.monotonic()
    for attempt in range(MOST_RESTARTS):
        left = given.seconds - int(time.monotonic() - started)
        if left <= 0:
            break
        seed = 1 + given.seed * 10_000 + number * 100 + attempt
        command = [sys.executable, __file__, name, "--one", "--seconds", str(left), "--seed", str(seed)]
        command += ["--keep", str(given.keep), "--work", str(given.work)]
        command += [] if given.corpus is None else ["--corpus", str(given.corpus)]
        with log.open("w", errors="replace") as stream:
            code = _exit_status(command, stream, left + 60)
        _add(total, log.read_text("utf-8", "replace"), code)
        if code == 0:
            log.unlink()
    total.seconds += time.monotonic() - started


def _exit_status(command: list[str], output: TextIO, seconds: float) -> int:
    """That of a command; of one that hangs in C, which libFuzzer's alarm does not end, that of its end."""
    try:
        return subprocess.run(command, stdout=output, stderr=output, check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return -9


def _slots(names: list[str], jobs: int) -> list[str]:
    """Which target each process fuzzes: every one at least once, the others by weight."""
    slots = list(names)
    while len(slots) < jobs:
        slots.append(max(names, key=lambda name: TARGETS[name].weight / slots.count(name)))
    return slots


def main() -> None:
    """Fuzz the targets, print and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz"))
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--totals", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help="a folder for seeds and what is found; a temporary one")
    given = parser.parse_args()
    unknown = set(given.targets) - set(TARGETS)
    if unknown:
        raise SystemExit(f"found target {min(unknown)}, expected some of {', '.join(TARGETS)}")
    given.keep.mkdir(parents=True, exist_ok=True)
    if given.one:
        try:
            fuzz(given.targets[0], given)
        finally:
            shutil.rmtree(_SCRATCH, ignore_errors=True)
        return
    names = given.targets or list(TARGETS)
    with tempfile.TemporaryDirectory(prefix="ptxaudit-fuzz-") as scratch:
        given.work = given.work or Path(scratch)
        for name in names:
            for part in ("seeds", "found"):
                (given.work / name / part).mkdir(parents=True, exist_ok=True)
        totals = {name: Total() for name in names}
        slots = _slots(names, given.jobs)
        with ThreadPoolExecutor(given.jobs) as pool:
            running = [pool.submit(_run, name, at, given, totals[name]) for at, name in enumerate(slots)]
        for one in running:
            one.result()
    print("| Target | Executions | Processes' seconds | Edges | Features | Peak MB | Faults |")
    for name, total in totals.items():
        cells = (total.executions, round(total.seconds), total.edges, total.features, total.megabytes)
        faults = "; ".join(f"{what} ({count})" for what, count in total.faults.items()) or "none"
        print(f"| `{name}` | {' | '.join(f'{one:,}' for one in cells)} | {faults} |")
    if given.totals is not None:
        fields = ("executions", "seconds", "edges", "features", "megabytes", "slowest", "faults")
        document = {
            name: {field: getattr(total, field) for field in fields} for name, total in totals.items()
        }
        given.totals.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
