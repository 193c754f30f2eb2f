"""Coverage-guided fuzzing of one parser: ``fuzz.py TARGET [--seconds 60] [--seed 0] [--keep DIR]``.

Needs ``pip install atheris``. Targets are the functions of ``TARGETS``: what each may raise is an error of
ptxaudit, everything else, and more than ten seconds or 1 GiB for an input, is a fault that stops the run and
leaves the input in ``--keep``. Seeds are the fixtures. It prints executions, edges and features as libFuzzer
counts them. Run by hand, with ``nice``.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

from container_builders import FIXTURES
from hostile import seeds

LARGEST = 1 << 16
MEGABYTES = 1024
SECONDS = 10

with atheris.instrument_imports(include=["ptxaudit", "elftools"]):
    from ptxaudit.engine.baseline import read_baseline
    from ptxaudit.engine.image import KernelImage, Place
    from ptxaudit.engine.launches import read_launches
    from ptxaudit.engine.settings import read_settings
    from ptxaudit.errors import InputError, PtxauditError
    from ptxaudit.frontends.ptx import load_ptx
    from ptxaudit.frontends.ptx_summary import summarise_ptx
    from ptxaudit.frontends.sass.disassemble import parse_listing
    from ptxaudit.frontends.sass.elf import read_cubin, read_debug_lines, read_header
    from ptxaudit.frontends.sass.summary import summarise_cubin
    from ptxaudit.intake.fatbins import WalkOptions
    from ptxaudit.intake.metadata import launches_beside
    from ptxaudit.intake.walk import Part, walk
    from ptxaudit.source import SourceText

_SCRATCH = Path(tempfile.mkdtemp(prefix="ptxaudit-fuzz-"))


def ptx(data: bytes) -> None:
    """The PTX front end, from text to the intermediate representation."""
    summarise_ptx(data)
    load_ptx(SourceText("fuzz.ptx", data.decode("utf-8", "replace")))


def cubin(data: bytes) -> None:
    """The ELF file of a cubin: header, tables, notes, line tables."""
    with contextlib.suppress(InputError):
        summarise_cubin(data, "fuzz.cubin")
    header = read_header(data, "fuzz.cubin")
    read_cubin(data, "fuzz.cubin", header)
    read_debug_lines(data, "fuzz.cubin")


def containers(data: bytes) -> None:
    """Fatbins, host ELF files, archives, zips, whatever is nested in them."""
    names: Counter[str] = Counter()
    for found in walk(Part(io.BytesIO(data), Place(("fuzz",)), WalkOptions())):
        names[str(getattr(found, "place", ""))] += 1
        if isinstance(found, KernelImage):
            assert found.sha256


def listing(data: bytes) -> None:
    """What nvdisasm prints."""
    parse_listing(data, "fuzz.cubin")


def _file(name: str, data: bytes) -> Path:
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


_TOML = (
    b'select = ["a"]\nfail-on = "never"\n[severity]\na = "note"\n[[suppress]]\nrule = "a"\nreason = "b"\n',
    b'[[launch]]\nkernel = "a.*"\nblock = [1, 2, 3]\n[launch.arguments]\n2 = 4\n',
)
_JSON = (
    b'[{"x": 1}, [{"function-name": "k", "start": 0, "sass-instructions": [{"opcode": "NOP"}]}]]',
    b'{"schema_version": "1.0", "findings": [{"rule": "a", "function": "k", "fingerprint": "00"}]}',
    b'{"name": "k", "num_warps": 4, "num_ctas": 1, "cluster_dims": [1, 1, 1], "shared": 1024}',
)
TARGETS: dict[str, tuple[Callable[[bytes], None], str]] = {
    "ptx": (ptx, "ptx"),
    "cubin": (cubin, "cubin"),
    "containers": (containers, "fatbin,archive,zip,host ELF"),
    "listing": (listing, "json"),
    "settings": (settings, "toml"),
    "baseline": (baseline, "json"),
    "launches": (launches, "toml"),
    "metadata": (metadata, "json"),
}


def _corpus(kinds: str) -> Path:
    folder = _SCRATCH / "corpus"
    folder.mkdir()
    texts = {"toml": _TOML, "json": _JSON}.get(kinds)
    wanted = kinds.split(",")
    contents = [one.content for one in seeds(None) if one.kind in wanted] if texts is None else texts
    for number, content in enumerate(contents):
        if len(content) <= LARGEST:
            (folder / str(number)).write_bytes(content)
    if not any(folder.iterdir()):
        raise SystemExit(f"found no seeds of {kinds} in {FIXTURES}")
    return folder


def main() -> None:
    """Fuzz one target; libFuzzer prints and exits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("."))
    given = parser.parse_args()
    read, kinds = TARGETS[given.target]

    def one(data: bytes) -> None:
        try:
            read(data)
        except PtxauditError as error:
            # The line that a user reads.
            assert "\n" not in str(error).strip(), str(error)

    given.keep.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={given.seconds}",
        f"-seed={given.seed}",
        f"-max_len={LARGEST}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={given.keep}/{given.target}-",
        "-print_final_stats=1",
        str(_corpus(kinds)),
    ]
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
