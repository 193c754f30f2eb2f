"""Mutated inputs through the command line: ``hostile.py [--count 1000] [--seed 0] [--jobs 1]``.

Draws seeds (fixtures, and files of ``--corpus DIR``), wraps some in fatbins, host ELF files, archives and
wheels, breaks each in a few places and audits them in batches beside inputs that are whole. Each batch is a
process of its own, forked from this one, in a folder of its own. It says how many inputs of each kind there
were and everything that should not be: a traceback, a wrong exit code, an input that the report lacks, a
hang, too much memory in all processes of an audit together, files left behind, a whole input whose verdicts
or findings are not those that it has without the broken ones. A batch that goes wrong is run again one input
at a time; the inputs at fault are kept under ``--keep DIR``, and ``--totals FILE`` gets all numbers as JSON.
What follows ``--`` are options of the audit: with ``--list`` nothing is disassembled, which is most of the
time of a cubin, ``--limit kernel-seconds=8`` ends the kernels that a mutation makes spin. Run by hand, with
``nice``; the same seed and number of jobs draw the same inputs.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from container_builders import (
    FIXTURES,
    LZ4,
    TARGET_A,
    ZSTD,
    archive,
    fatbin,
    fatbin_entry,
    host_elf,
    zipped,
)
from processes import family

MEMORY_LIMIT = 1 << 30
SECONDS_PER_INPUT = 10
LARGEST_INPUT = (1 << 20) - 1
LARGEST_SEED = 1 << 17
LARGEST_PTX = 3 << 13
BATCH = 16
RULES_AT_A_TIME = 4
ALLOWED = {0, 1, 3}
SAY_SECONDS = 10
PAGE = os.sysconf("SC_PAGESIZE")
_TOKENS = (
    b"{", b"}", b"(", b")", b"[", b"]", b"<", b">", b";", b",", b"@!", b".reg", b".param", b"bra", b"call",
    b"0x", b"18446744073709551616", b"-1", b"%p", b"\xff", b"\0", b"/*", b'"', b".b32", b"brx.idx",
    b".branchtargets", b"<999999999>", b"[4294967295]", b"ret;", b"mbarrier.init.shared.b64",
    b"::", b"\x1b[2J",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seed:
    """Something whole to break; ``kind`` is what totals call it, ``suffix`` how its file is named."""

    kind: str
    suffix: str
    content: bytes


def seeds(corpus: Path | None) -> list[Seed]:
    """Every fixture, those of ``corpus``, and containers made of them."""
    roots = [FIXTURES, *([] if corpus is None else [corpus])]
    files = [path for root in roots for path in sorted(root.rglob("*")) if path.is_file()]
    small = [path for path in files if path.stat().st_size <= LARGEST_SEED]
    # Executing a large kernel takes seconds, and its text is no other than that of a small one.
    texts = [path for path in small if path.suffix == ".ptx" and path.stat().st_size <= LARGEST_PTX]
    ptx = [path.read_bytes() for path in texts]
    cubins = [path.read_bytes() for path in small if path.suffix == ".cubin"]
    ready = [Seed("ptx", ".ptx", one) for one in ptx] + [Seed("cubin", ".cubin", one) for one in cubins]
    for path in small:
        if path.suffix in (".fatbin", ".a", ".so"):
            kind = {".fatbin": "fatbin", ".a": "archive", ".so": "host ELF"}[path.suffix]
            ready.append(Seed(kind, path.suffix, path.read_bytes()))
    for number, cubin in enumerate(cubins):
        text = ptx[number % len(ptx)]
        for flags in (0, LZ4, ZSTD):
            entries = (fatbin_entry(cubin, flags=flags | TARGET_A), fatbin_entry(text, 1, flags=flags))
            ready.append(Seed("fatbin", ".fatbin", fatbin(*entries)))
        library = host_elf({".nv_fatbin": fatbin(fatbin_entry(cubin, flags=ZSTD))})
        members = {"kernel.cubin": cubin, "a_member_of_a_long_name.ptx": text, "lib.so": library}
        ready.append(Seed("host ELF", ".so", library))
        ready.append(Seed("archive", ".a", archive(members)))
        ready.append(Seed("wheel", ".whl", zipped(members)))
    return ready


def mutated(content: bytes, draw: random.Random, others: list[Seed]) -> bytes:
    """``content`` broken in one to six places."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        draw.choice(_BREAKS)(data, draw, others)
    return bytes(data)


def _flip(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _number(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    """An aligned little-endian field set to a value at the edge of something."""
    size = draw.choice((2, 4, 8))
    if len(data) > size:
        # Headers and tables are near both ends.
        reach = min(len(data) - size, draw.choice((128, 1024, len(data))))
        at = draw.randrange(reach + 1)
        at = at if draw.random() < 0.5 else len(data) - size - at
        at -= at % size
        edge = draw.choice((0, 1, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, -1, len(data)))
        data[at : at + size] = (edge % (1 << 8 * size)).to_bytes(size, "little")


def _cut(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    if data:
        del data[draw.randrange(len(data)) :]


def _remove(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    if data:
        at = draw.randrange(len(data))
        del data[at : at + draw.choice((1, 4, 64, 512))]


def _repeat(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    if data:
        at = draw.randrange(len(data))
        piece = bytes(data[at : at + draw.choice((1, 8, 64, 256))])
        data[at:at] = piece * draw.choice((1, 2, 16, 256))


def _splice(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    other = draw.choice(others).content
    if other and data:
        at, start = draw.randrange(len(data)), draw.randrange(len(other))
        size = draw.choice((16, 256, 2048))
        data[at : at + size] = other[start : start + size]


def _token(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    at = draw.randrange(len(data) + 1)
    data[at:at] = draw.choice(_TOKENS)


def _nest(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    at = draw.randrange(len(data) + 1)
    data[at:at] = draw.choice((b"(", b"{", b"[", b"/*", b"-", b"!", b"~", b"%p ? ")) * draw.choice((50, 5000))


def _swap_lines(data: bytearray, draw: random.Random, others: list[Seed]) -> None:
    lines = bytes(data).split(b"\n")
    if len(lines) > 2:
        first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[first], lines[second] = lines[second], lines[first]
        data[:] = b"\n".join(lines)


_BREAKS: tuple[Callable[[bytearray, random.Random, list[Seed]], None], ...] = (
    _flip, _flip, _number, _number, _cut, _remove, _repeat, _splice, _token, _token, _nest, _swap_lines,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """What a run did wrong, and with which inputs."""

    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How an audit ended: ``code`` is ``None`` when it took too long, negative for the signal that ended it.

    ``memory`` is the most that all of its processes had resident at one time, in bytes.
    """

    code: int | None
    printed: str
    errors: str
    seconds: float
    memory: int


def run(folder: Path, arguments: list[str], seconds: float, surplus: int) -> Ended:
    """An audit in a child; ``surplus`` is memory in bytes that it inherits and an audit does not have."""
    output, errors = folder.parent / "stdout", folder.parent / "stderr"
    started = time.monotonic()
    memory = 0
    code: int | None = None
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        child = os.fork()
        if child == 0:
            _audit_in_child(folder, arguments, stdout.fileno(), stderr.fileno())
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() - started > seconds:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            memory = max(memory, _resident(child) - surplus)
            time.sleep(0.02)
    took = time.monotonic() - started
    texts = [one.read_text("utf-8", "replace") for one in (output, errors)]
    return Ended(code, *texts, took, memory)


def _resident(process: int) -> int:
    """The memory in bytes of a process and of all that it started."""
    return sum(map(_own_resident, family(process)))


def _own_resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _audit_in_child(folder: Path, arguments: list[str], output: int, errors: int) -> None:
    """Never returns."""
    code = 99
    try:
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY_LIMIT, 4 * MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
        tempfile.tempdir = str(folder.parent / "temporary")
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", write_through=True)
        sys.argv = ["ptxaudit", "audit", *arguments]
        from ptxaudit.cli import main

        main()
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 99
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@dataclass(slots=True)
class Looked:
    """What is known of one audit: what it did wrong, and what it costs and says."""

    faults: list[Fault] = field(default_factory=list)
    code: int | None = None
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    functions: int = 0


@dataclass(frozen=True, slots=True)
class Bench:
    """Where audits of a worker run: ``folder`` has the inputs, ``whole`` names those not broken."""

    folder: Path
    whole: tuple[str, ...]
    surplus: int

    def look(self, names: list[str], options: list[str]) -> Looked:
        """An audit of broken inputs beside the whole ones, and everything that it does that it should not."""
        report = self.folder.parent / "report.json"
        report.unlink(missing_ok=True)
        before = sorted(self.folder.rglob("*"))
        temporary = self.folder.parent / "temporary"
        seconds = SECONDS_PER_INPUT * (len(names) + 1)
        arguments = [*names, *self.whole, "--json", str(report), *options]
        ended = run(self.folder, arguments, seconds, self.surplus)
        found = Looked(code=ended.code, seconds=ended.seconds, memory=ended.memory)
        found.faults += _process_faults(ended, seconds)
        left = list(temporary.iterdir())
        if (left and ended.code is not None) or sorted(self.folder.rglob("*")) != before:
            found.faults.append(Fault("files left behind", ", ".join(map(str, left)) or "beside the inputs"))
        for one in left:  # of a process that was killed
            shutil.rmtree(one)
        if report.exists():
            document = json.loads(report.read_text())
            if "--list" in options:
                found.faults += _listing_faults(document, ended.code, self.whole)
            else:
                _note(document, found)
                found.faults += _report_faults(document, ended, [*names, *self.whole])
                found.faults += self._whole_faults(document, options)
        elif ended.code in ALLOWED:
            found.faults.append(Fault("no report", ended.errors[-400:]))
        return found

    def _whole_faults(self, document: dict[str, Any], options: list[str]) -> Iterator[Fault]:
        expected = _expected(self, tuple(options))
        if of_whole(document, self.whole) != expected:
            yield Fault("a whole input has other verdicts or findings", "")


@cache
def _expected(bench: Bench, options: tuple[str, ...]) -> list[Any]:
    """What an audit of the whole inputs alone says of them."""
    report = bench.folder.parent / "expected.json"
    arguments = [*bench.whole, "--json", str(report), *options]
    ended = run(bench.folder, arguments, SECONDS_PER_INPUT * 10, bench.surplus)
    if ended.code not in (0, 1):
        raise SystemExit(f"an audit of the whole inputs ended with {ended.code}: {ended.errors[-400:]}")
    found = of_whole(json.loads(report.read_text()), bench.whole)
    if not found:
        raise SystemExit("an audit of the whole inputs says nothing")
    return found


def of_whole(document: dict[str, Any], whole: tuple[str, ...]) -> list[Any]:
    """What a report says of some inputs: whether each image was audited, verdicts, findings."""

    def is_whole(path: str) -> bool:
        return path.split("!", maxsplit=1)[0] in whole

    said: list[Any] = [[one["path"], one["status"]] for one in document["inputs"] if is_whole(one["path"])]
    said += [
        [one["input"], one["name"], sorted(one["verdicts"].items())]
        for one in document["functions"]
        if is_whole(one["input"])
    ]
    said += [
        [one["input"], one["rule"], one["function"], one["severity"], one["message"]]
        for one in document["findings"]
        if is_whole(one["input"])
    ]
    return sorted(said, key=repr)


def _process_faults(ended: Ended, seconds: float) -> Iterator[Fault]:
    if ended.code is None:
        yield Fault("hang", f"more than {seconds} s")
        return
    printed = ended.errors + ended.printed
    if "Traceback" in printed or "internal error" in printed:
        yield Fault("traceback", "\n".join(printed.splitlines()[-4:]))
    if ended.code not in ALLOWED:
        yield Fault("exit code", f"{ended.code}: {ended.errors[-400:]}")
    if ended.memory > MEMORY_LIMIT:
        yield Fault("memory", f"{ended.memory >> 20} MiB")
    steering = [line for line in printed.split("\n") if not line.replace("\t", "").isprintable()]
    if steering:
        yield Fault("control characters", repr(steering[:2]))


def _note(document: dict[str, Any], found: Looked) -> None:
    found.statuses.update(one["status"] for one in document["inputs"])
    found.functions = len(document["functions"])
    found.slowest = max((sum(one.get("timings", {}).values()) for one in document["inputs"]), default=0.0)
    if found.slowest > SECONDS_PER_INPUT:
        found.faults.append(Fault("slow", f"{found.slowest:.1f} s of processor time for one input"))


def _report_faults(document: dict[str, Any], ended: Ended, names: list[str]) -> Iterator[Fault]:
    inputs = document["inputs"]
    named = {one["path"].split("!")[0] for one in [*inputs, *document.get("skipped", [])]}
    missing = [name for name in names if name not in named]
    if missing:
        yield Fault("an input that the report lacks", ", ".join(missing))
    failed = any(one["status"] == "failed" for one in inputs)
    failed = failed or any("incomplete" in one for one in document["functions"])
    counted = any(one["severity"] in ("error", "warning") for one in document["findings"])
    expected = 3 if failed else int(counted)
    if ended.code != expected and ended.code in ALLOWED:
        yield Fault("exit code", f"{ended.code}, expected {expected}")
    short = failed or bool(document.get("skipped"))
    if ended.printed.startswith("incomplete: ") != short or bool(document.get("incomplete")) != short:
        yield Fault("first line", f"{ended.printed[:80]!r}, something is missing: {short}")


def _listing_faults(document: dict[str, Any], code: int | None, whole: tuple[str, ...]) -> Iterator[Fault]:
    if bool(document["errors"]) != (code == 3):
        yield Fault("exit code", f"{code}, errors: {document['errors'][:2]}")
    listed = {one["place"].split("!")[0] for one in document["images"] if one["kernels"]}
    for name in whole:
        if name not in listed:
            yield Fault("a whole input was not listed", name)


@dataclass(frozen=True, slots=True)
class Work:
    """What one worker does: ``count`` inputs, or until ``until`` by the monotonic clock."""

    number: int
    seed: int
    count: int
    until: float
    options: tuple[str, ...]
    every: list[Seed]
    kinds: tuple[str, ...]
    rules: tuple[str, ...]
    surplus: int
    keep: Path | None


def work(given: Work, log: Path) -> None:
    """Draw and audit batches; what is known of each is a line of JSON in ``log``."""
    draw = random.Random(f"{given.seed} {given.number}")
    by_kind = {kind: [one for one in given.every if one.kind == kind] for kind in given.kinds}
    # Some rules at a time: what is tried is the way to them.

    groups = [given.rules[at : at + RULES_AT_A_TIME] for at in range(0, len(given.rules), RULES_AT_A_TIME)]
    done = 0
    with tempfile.TemporaryDirectory() as scratch:
        bench = _bench(Path(scratch), given.surplus)
        whole = {path.read_bytes() for path in (bench.folder / "whole").iterdir()}
        while done < given.count and time.monotonic() < given.until:
            options = [*given.options, "--select", ",".join(draw.choice(groups))]
            totals: Counter[str] = Counter()
            names: list[str] = []
            while len(names) < min(BATCH, given.count - done):
                chosen = draw.choice(by_kind[draw.choice(given.kinds)])
                content = mutated(chosen.content, draw, given.every)
                if len(content) > LARGEST_INPUT or content in whole:
                    continue
                names.append(f"{len(names):02}{chosen.suffix}")
                (bench.folder / names[-1]).write_bytes(content)
                totals[chosen.kind] += 1
            found = bench.look(names, options)
            faults = _single_out(bench, names, options, given.keep) if found.faults else []
            for name in names:
                (bench.folder / name).unlink()
            done += len(names)
            batch = {
                "kinds": dict(totals),
                "exit code": str(found.code),
                "statuses": dict(found.statuses),
                "functions": found.functions,
                "seconds": found.seconds,
                "slowest": found.slowest,
                "memory": found.memory,
                "faults": faults,
            }
            with log.open("a") as stream:
                stream.write(json.dumps(batch) + "\n")


def _bench(scratch: Path, surplus: int) -> Bench:
    """A folder with inputs that are whole: a PTX text, a cubin and both in a wheel.

    What is there twice is reported once, so none of them is what a seed holds, too.
    """
    folder = scratch / "batch"
    (folder / "whole").mkdir(parents=True)
    (scratch / "temporary").mkdir()
    remark = b"// the whole one\n"
    members = {
        "exchange.ptx": remark + (FIXTURES / "join" / "exchange_narrow.ptx").read_bytes(),
        "two_kernels.cubin": _renamed("containers/two_kernels.sm_90a.cubin", (b"3add", b"5scale")),
    }
    contents = {
        "mailbox.ptx": remark + (FIXTURES / "cubin" / "mailbox.ptx").read_bytes(),
        "dispatch.cubin": _renamed("cubin/dispatch.sm_90a.cubin", (b"dispatch",)),
        "both.whl": zipped(members),
    }
    for name, content in contents.items():
        (folder / "whole" / name).write_bytes(content)
    return Bench(folder, tuple(f"whole/{name}" for name in contents), surplus)


def _renamed(fixture: str, names: tuple[bytes, ...]) -> bytes:
    """A cubin with the last letter of its kernels' names in upper case."""
    content = (FIXTURES / fixture).read_bytes()
    for name in names:
        content = content.replace(name, name[:-1] + name[-1:].upper())
    return content


def _single_out(
    bench: Bench, names: list[str], options: list[str], keep: Path | None
) -> list[dict[str, str]]:
    """The inputs of a batch that went wrong which go wrong alone, else all of them together."""
    faults: list[dict[str, str]] = []
    for name in names:
        for fault in bench.look([name], options).faults:
            content = (bench.folder / name).read_bytes()
            kept = f"{zlib.crc32(content):08x}{Path(name).suffix}"
            faults.append({"what": fault.what, "detail": fault.detail, "input": kept, "rules": options[-1]})
            if keep is not None:
                (keep / kept).write_bytes(content)
    if not faults:
        for fault in bench.look(names, options).faults:
            kept = f"together-{zlib.crc32(' '.join(names).encode()) ^ random.getrandbits(32):08x}"
            what = f"only together: {fault.what}"
            faults.append({"what": what, "detail": fault.detail, "input": kept, "rules": options[-1]})
            if keep is not None:
                (keep / kept).mkdir()
                for name in names:
                    (keep / kept / name).write_bytes((bench.folder / name).read_bytes())
    return faults


@dataclass(slots=True)
class Totals:
    """The numbers of all workers together."""

    kinds: Counter[str] = field(default_factory=Counter)
    exit_codes: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    functions: int = 0
    audits: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    faults: list[dict[str, str]] = field(default_factory=list)

    def add(self, batch: dict[str, Any]) -> None:
        """Count one batch."""
        self.kinds.update(batch["kinds"])
        self.exit_codes[batch["exit code"]] += 1
        self.statuses.update(batch["statuses"])
        self.functions += batch["functions"]
        self.audits += 1
        self.seconds += batch["seconds"]
        self.slowest = max(self.slowest, batch["slowest"])
        self.memory = max(self.memory, batch["memory"])
        self.faults += batch["faults"]

    def document(self, elapsed: float) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "inputs": sum(self.kinds.values()),
            "kinds": dict(sorted(self.kinds.items())),
            "audits": self.audits,
            "exit codes of audits": dict(sorted(self.exit_codes.items())),
            "statuses of images": dict(sorted(self.statuses.items())),
            "functions": self.functions,
            "elapsed seconds": round(elapsed, 1),
            "seconds of all audits": round(self.seconds, 1),
            "most seconds of processor time for one input": round(self.slowest, 2),
            "most MiB of one audit": self.memory >> 20,
            "faults": dict(Counter(one["what"] for one in self.faults)),
            "at fault": self.faults,
        }


def main() -> None:
    """Draw, run, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--kind", help="only seeds of this kind: ptx, cubin, fatbin, archive, wheel, host ELF"
    )
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--totals", type=Path, help="a JSON file of all numbers, written every ten seconds")
    parser.add_argument("options", nargs="*", help="for the audit, after --")
    given = parser.parse_args()
    # The children inherit what is loaded here.
    from ptxaudit.engine.registry import load_registry

    registry = load_registry()
    _ = [registry[name] for name in registry]
    plain = _resident(os.getpid())
    every = seeds(given.corpus)
    kinds = tuple(sorted({one.kind for one in every if given.kind in (None, one.kind)}))
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    rules = sorted(registry)
    random.Random(given.seed).shuffle(rules)
    options = ("--no-store", "--jobs", "1", "--fail-on", "warning", "--timings", *given.options)
    started = time.monotonic()
    share = -(-given.count // given.jobs)
    until = started + given.seconds
    surplus = _resident(os.getpid()) - plain
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as scratch:
        logs = [Path(scratch, f"{number}.jsonl") for number in range(given.jobs)]
        workers = []
        for number, log in enumerate(logs):
            log.touch()
            asked = Work(
                number, given.seed, share, until, options, every, kinds, tuple(rules), surplus, given.keep
            )
            workers.append(fork.Process(target=work, args=(asked, log)))
            workers[-1].start()
        said = started
        while any(one.is_alive() for one in workers):
            time.sleep(0.5)
            if time.monotonic() - said > SAY_SECONDS:
                said = time.monotonic()
                _say(_totals(logs), said - started, given.totals)
        _say(_totals(logs), time.monotonic() - started, given.totals)


def _totals(logs: list[Path]) -> Totals:
    totals = Totals()
    for log in logs:
        # A line may be half written.
        for line in log.read_text().split("\n")[:-1]:
            totals.add(json.loads(line))
    return totals


def _say(totals: Totals, elapsed: float, file: Path | None) -> None:
    document = totals.document(elapsed)
    if file is not None:
        file.write_text(json.dumps(document, indent=1))
    kinds = ", ".join(f"{kind}: {number}" for kind, number in document["kinds"].items())
    wrong = ", ".join(f"{what}: {number}" for what, number in document["faults"].items()) or "none"
    most = f"{document['most MiB of one audit']} MiB, {totals.slowest:.1f} s for one input"
    print(f"{document['inputs']} inputs in {elapsed:.0f} s ({kinds}), {most}, faults: {wrong}", flush=True)


if __name__ == "__main__":
    main()
