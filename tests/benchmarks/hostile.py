"""Mutated inputs through the command line: ``hostile.py [--count 1000] [--seed 0] [--seconds 600]``.

Draws seeds (fixtures, and files of ``--corpus DIR``), wraps some in fatbins, host ELF files, archives and
zips, breaks each in a few places and audits them in batches beside an input that is whole. Each batch is a
process of its own, forked from this one, with a limit on its memory. It prints how many inputs of each kind
there were and everything that should not be: a traceback, a wrong exit code, an input that the report lacks,
a hang, too much memory, a whole input that was not audited. A batch that goes wrong is run again one input at
a time, and the inputs at fault are kept under ``--keep DIR``. What follows ``--`` are options of the audit:
with ``--list`` nothing is disassembled, which is most of the time of a cubin, ``--limit kernel-seconds=8``
ends the kernels that a mutation makes spin. Run by hand, with ``nice``; the
same seed draws the same inputs.
"""

import argparse
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

MEMORY_LIMIT = 1 << 30
SECONDS_PER_INPUT = 10
LARGEST_SEED = 1 << 17
LARGEST_PTX = 1 << 13
BATCH = 16
RULES_AT_A_TIME = 4
ALLOWED = {0, 1, 3}
WHOLE = "whole.ptx"
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
        ready.append(Seed("zip", ".whl", zipped(members)))
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


def run(folder: Path, arguments: list[str], seconds: float) -> tuple[int | None, str, int]:
    """The exit code of an audit in a child, all that it printed, and its largest resident size in bytes.

    The code is ``None`` when it took longer than ``seconds``, negative for the signal that ended it.
    """
    printed = folder.parent / "printed"
    with printed.open("wb") as stream:
        child = os.fork()
        if child == 0:
            _audit_in_child(folder, arguments, stream.fileno())
    deadline = time.monotonic() + seconds
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            code: int | None = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            _, _, usage = os.wait4(child, 0)
            code = None
            break
        time.sleep(0.01)
    return code, printed.read_text("utf-8", "replace"), usage.ru_maxrss * 1024


def _audit_in_child(folder: Path, arguments: list[str], output: int) -> None:
    """Never returns."""
    code = 99
    try:
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY_LIMIT, 4 * MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(folder)
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


def faults(folder: Path, names: list[str], options: list[str], base: int) -> Iterator[Fault]:
    """Everything that an audit of a folder does that it should not."""
    report = folder.parent / "report.json"
    report.unlink(missing_ok=True)
    seconds = SECONDS_PER_INPUT * len(names)
    code, printed, memory = run(folder, [*names, "--json", str(report), *options], seconds)
    listing = "--list" in options
    if code is None:
        yield Fault("hang", f"more than {seconds} s")
        return
    if "Traceback" in printed or "internal error" in printed:
        yield Fault("traceback", "\n".join(printed.splitlines()[-4:]))
    if code not in ALLOWED:
        yield Fault("exit code", f"{code}: {printed[-400:]}")
    if memory - base > MEMORY_LIMIT:
        yield Fault("memory", f"{memory >> 20} MiB")
    steering = [line for line in printed.split("\n") if not line.replace("\t", "").isprintable()]
    if steering:
        yield Fault("control characters", repr(steering[:2]))
    if report.exists():
        document = json.loads(report.read_text())
        yield from (_listing_faults if listing else _report_faults)(document, code, names)
    elif code in ALLOWED:
        yield Fault("no report", printed[-400:])


def _report_faults(document: dict[str, Any], code: int, names: list[str]) -> Iterator[Fault]:
    inputs = document["inputs"]
    named = {one["path"].split("!")[0] for one in [*inputs, *document.get("skipped", [])]}
    missing = [name for name in names if name not in named]
    if missing:
        yield Fault("an input that the report lacks", ", ".join(missing))
    failed = any(one["status"] == "failed" for one in inputs)
    failed = failed or any("incomplete" in one for one in document["functions"])
    if failed != (code == 3) and code in ALLOWED:
        yield Fault("exit code", f"{code}, failed inputs: {failed}")
    if WHOLE in names and not any(one["path"] == WHOLE and one["status"] == "audited" for one in inputs):
        yield Fault("a whole input was not audited", WHOLE)


def _listing_faults(document: dict[str, Any], code: int, names: list[str]) -> Iterator[Fault]:
    if bool(document["errors"]) != (code == 3):
        yield Fault("exit code", f"{code}, errors: {document['errors'][:2]}")
    if not any(one["place"] == WHOLE and one["kernels"] for one in document["images"]):
        yield Fault("a whole input was not listed", WHOLE)


def main() -> None:
    """Draw, run, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kind", help="only seeds of this kind: ptx, cubin, fatbin, archive, zip, host ELF")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("options", nargs="*", help="for the audit, after --")
    given = parser.parse_args()
    draw = random.Random(given.seed)
    every = [one for one in seeds(given.corpus) if given.kind in (None, one.kind)]
    by_kind: dict[str, list[Seed]] = {}
    for one in every:
        by_kind.setdefault(one.kind, []).append(one)
    whole = (FIXTURES / "cubin" / "mailbox.ptx").read_bytes()
    # The children inherit what is loaded here.
    from ptxaudit.engine.registry import load_registry

    registry = load_registry()
    _ = [registry[name] for name in registry]
    options = ["--no-store", "--jobs", "1", "--fail-on", "warning", *given.options]
    # A few rules at a time: what is tried is the way to them.
    ids = sorted(registry)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    totals: Counter[str] = Counter()
    met: Counter[str] = Counter()
    started = time.monotonic()
    done = 0
    with tempfile.TemporaryDirectory() as scratch:
        while done < given.count and time.monotonic() - started < given.seconds:
            folder = Path(scratch, "batch")
            folder.mkdir()
            chosen = [draw.choice(by_kind[draw.choice(sorted(by_kind))]) for _ in range(BATCH)]
            names = []
            for number, one in enumerate(chosen):
                name = f"{number:02}{one.suffix}"
                (folder / name).write_bytes(mutated(one.content, draw, every))
                names.append(name)
            (folder / WHOLE).write_bytes(whole)
            for one in chosen:
                totals[one.kind] += 1
            asked = [*options, "--select", ",".join(draw.sample(ids, RULES_AT_A_TIME))]
            if list(faults(folder, [*names, WHOLE], asked, base)):
                _single_out(folder, names, asked, base, met, given.keep)
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            done += len(names)
            said = ", ".join(f"{kind}: {number}" for kind, number in sorted(totals.items()))
            wrong = ", ".join(f"{what}: {number}" for what, number in met.items()) or "none"
            seconds = time.monotonic() - started
            print(f"{done} inputs in {seconds:.0f} s ({said}), faults: {wrong}", flush=True)


def _single_out(
    folder: Path, names: list[str], options: list[str], base: int, met: Counter[str], keep: Path | None
) -> None:
    alone = False
    for name in names:
        for fault in faults(folder, [name, WHOLE], options, base):
            alone = True
            met[fault.what] += 1
            content = (folder / name).read_bytes()
            kept = f"{zlib.crc32(content):08x}{Path(name).suffix}"
            print(f"{fault.what} ({kept}): {fault.detail}", flush=True)
            if keep is not None:
                keep.mkdir(exist_ok=True, parents=True)
                (keep / kept).write_bytes(content)
    if not alone:
        met["only together"] += 1
        for fault in faults(folder, [*names, WHOLE], options, base):
            print(f"only together: {fault.what}: {fault.detail}", flush=True)
            if keep is not None:
                target = keep / f"together-{met['only together']}"
                target.mkdir(exist_ok=True, parents=True)
                for path in folder.iterdir():
                    (target / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
