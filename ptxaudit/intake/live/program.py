"""Runs a command with its kernels captured."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxaudit.errors import ToolError, UsageError, system_reason
from ptxaudit.intake.live.compilers import compiler_environment, make_compiler_folders
from ptxaudit.intake.live.folder import MODULES_FOLDER, CaptureRecord, read_record, write_launches
from ptxaudit.intake.live.library import find_cupti, injection_library
from ptxaudit.words import counted

MOST_FAULTS = 10


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A command that ran: its exit code (128 + the signal's number when one ended it) and what was captured.

    ``seconds`` is elapsed time; ``launch_file`` the launches of its kernels, where there were any; ``fault``
    says why the driver's loads could not be captured (the compilers' files still are).
    """

    exit_code: int
    seconds: float
    record: CaptureRecord
    launch_file: Path | None
    fault: str | None

    def summary(self) -> Iterator[str]:
        """Lines for a person: the counts and the overhead, how the program ended, what was not captured."""
        record = self.record
        kernels = counted(len(record.kernels), "launched kernel")
        yield (
            f"captured {counted(record.modules, 'module')} and {kernels}; "
            f"the program took {self.seconds:.2f} s, {record.seconds_inside:.3f} s of it in "
            f"{counted(record.callbacks, 'callback')} of the capture"
        )
        if self.exit_code:
            yield f"the program exited with {self.exit_code}"
        if self.fault is not None:
            yield f"what the driver loads was not captured: {self.fault}"
        yield from record.faults[:MOST_FAULTS]
        if len(record.faults) > MOST_FAULTS:
            yield f"and {len(record.faults) - MOST_FAULTS} faults more"


def run_captured(command: Sequence[str], folder: Path, fresh_caches: bool = True) -> ProgramRun:
    """Run ``command`` with its standard streams, its kernels kept below ``folder``.

    With ``fresh_caches`` the compilers get empty caches, so that they emit every kernel. Raises
    :class:`UsageError` when the command or the folder cannot be used.
    """
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]}: found no such command, expected a program to run")
    folder = Path(os.path.realpath(folder))
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder}: found files there, expected an empty or a new folder")
    try:
        (folder / MODULES_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {system_reason(error)}") from error
    environment, fault = _environment(program, folder, fresh_caches)
    start = time.monotonic()
    code = _run([program, *command[1:]], environment)
    seconds = time.monotonic() - start
    record = read_record(folder)
    return ProgramRun(code, seconds, record, write_launches(folder, record), fault)


def _environment(program: str, folder: Path, fresh_caches: bool) -> tuple[dict[str, str], str | None]:
    environment, fault = dict(os.environ), None
    if fresh_caches:
        make_compiler_folders(folder)
        environment |= compiler_environment(folder)
    try:
        environment["CUDA_INJECTION64_PATH"] = str(injection_library())
    except ToolError as error:
        fault = str(error)
    environment["PTXAUDIT_CAPTURE_DIR"] = str(folder / MODULES_FOLDER)
    cupti = find_cupti(program)
    if cupti is not None:
        environment["PTXAUDIT_CUPTI"] = str(cupti)
    return environment, fault


def _run(command: list[str], environment: dict[str, str]) -> int:
    """The command's exit code. Ctrl-C reaches the command too, and the command decides what to do."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise UsageError(f"{command[0]}: {system_reason(error)}") from error
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        return code if code >= 0 else 128 - code
