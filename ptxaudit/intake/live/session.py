"""``with capture() as kernels:`` keeps the kernels that this process compiles or loads meanwhile."""

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from ptxaudit.engine.image import KernelImage, Place
from ptxaudit.engine.launches import NamedLaunch, read_launches
from ptxaudit.errors import ToolError, UsageError
from ptxaudit.intake.live.compilers import compiler_environment, make_compiler_folders
from ptxaudit.intake.live.folder import MODULES_FOLDER, CaptureRecord, read_record, write_launches
from ptxaudit.intake.live.library import find_cupti, injection_library
from ptxaudit.intake.walk import IMAGE_SUFFIXES

_one_at_a_time = threading.Lock()


class CapturedKernels(Sequence[KernelImage]):
    """The images that a capture kept, each content once; empty until the capture ends.

    ``record`` has the launches and what the capture took; ``faults`` what could not be captured, in lines.
    """

    def __init__(self) -> None:
        self._images: tuple[KernelImage, ...] = ()
        self.record: CaptureRecord | None = None
        self.faults: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> KernelImage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[KernelImage, ...]: ...
    def __getitem__(self, index: int | slice) -> KernelImage | tuple[KernelImage, ...]:
        return self._images[index]

    def __len__(self) -> int:
        return len(self._images)

    def fill(self, folder: Path, faults: tuple[str, ...]) -> None:
        """Read what a capture left in ``folder``."""
        self.record = read_record(folder)
        self.faults = (*faults, *self.record.faults)
        launch_file = write_launches(folder, self.record)
        launches = () if launch_file is None else read_launches(launch_file)
        self._images = tuple(_images(folder, launches))


def _images(folder: Path, launches: tuple[NamedLaunch, ...]) -> Iterator[KernelImage]:
    seen: set[str] = set()
    for path in sorted(folder.rglob("*")):
        kind = IMAGE_SUFFIXES.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        place = Place((str(path.relative_to(folder)),))
        image = KernelImage(place, path.read_bytes(), kind, launches=launches)
        if image.sha256 not in seen:
            seen.add(image.sha256)
            yield image


@contextlib.contextmanager
def capture(folder: str | os.PathLike[str] | None = None) -> Iterator[CapturedKernels]:
    """Keep what Triton, the CuTe DSL, inductor and TileLang emit and what the driver loads in this process.

    What was loaded before is not seen. With ``folder`` the files stay there. Without a GPU, CUPTI or C
    compiler only the compilers' files are kept, and ``faults`` says so. Raises :class:`UsageError` when a
    capture is running in this process.
    """
    if not _one_at_a_time.acquire(blocking=False):
        raise UsageError("capture: found one running in this process, expected none")
    kernels = CapturedKernels()
    with contextlib.ExitStack() as stack:
        stack.callback(_one_at_a_time.release)
        if folder is None:
            into = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ptxaudit-")))
        else:
            into = Path(folder).resolve()
        (into / MODULES_FOLDER).mkdir(parents=True, exist_ok=True)
        make_compiler_folders(into)
        stack.enter_context(_variables(compiler_environment(into)))
        stop, faults = _start(into / MODULES_FOLDER)
        try:
            yield kernels
        finally:
            stop()
            kernels.fill(into, faults)


@contextlib.contextmanager
def _variables(wanted: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(modules: Path) -> "tuple[_Stop, tuple[str, ...]]":
    try:
        library = ctypes.CDLL(str(injection_library()))
    except (ToolError, OSError) as error:
        return _Stop(None), (str(error),)
    cupti = find_cupti(sys.executable)
    library.ptxaudit_capture_start.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.ptxaudit_capture_start(os.fsencode(modules), os.fsencode(cupti) if cupti else None)
    return _Stop(library), ()


class _Stop:
    """Ends the capture of a library, if there is one."""

    def __init__(self, library: ctypes.CDLL | None) -> None:
        self._library = library

    def __call__(self) -> None:
        if self._library is not None:
            self._library.ptxaudit_capture_stop()
