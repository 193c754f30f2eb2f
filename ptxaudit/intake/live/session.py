"""``with capture() as kernels:`` keeps the kernels that this process compiles or loads meanwhile."""

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

from ptxaudit.engine.image import BrokenImage, Found, KernelImage, Place
from ptxaudit.engine.launches import read_launches
from ptxaudit.errors import ToolError, UsageError
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.live.compilers import compiler_environment, make_compiler_folders
from ptxaudit.intake.live.folder import MODULES_FOLDER, CaptureRecord, read_record, write_launches
from ptxaudit.intake.live.library import find_cupti, injection_library
from ptxaudit.intake.sources import find_images

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
        found = [_within(folder, one) for one in find_images([str(folder)], WalkOptions())]
        images: dict[str, KernelImage] = {}
        for one in found:
            if isinstance(one, KernelImage):
                # What a compiler wrote about a launch comes after how the kernel was launched.
                told = replace(one, launches=(*launches, *one.launches))
                images.setdefault(one.sha256, told)
        self._images = tuple(images.values())
        broken = (one for one in found if isinstance(one, BrokenImage) and one.place.parts != (".",))
        self.faults += tuple(one.message for one in broken)


def _within(folder: Path, found: Found) -> Found:
    """What was found, with the way to it from the folder, which may be gone by then."""
    path, *members = found.place.parts
    return replace(found, place=Place((str(Path(path).relative_to(folder)), *members)))


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
            into = Path(os.path.realpath(folder))
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
