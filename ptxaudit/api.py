"""The Python interface: ``ptxaudit.audit(kernels)``."""

import datetime
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from ptxaudit.arch import parse_architecture
from ptxaudit.engine.adoption import Decisions, decided
from ptxaudit.engine.audit import AuditOptions
from ptxaudit.engine.audit import audit as audit_images
from ptxaudit.engine.baseline import read_baseline
from ptxaudit.engine.image import Found, ImageKind, KernelImage, Place
from ptxaudit.engine.launches import read_launches
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.engine.selection import Selection
from ptxaudit.engine.settings import Settings, read_settings
from ptxaudit.errors import PtxauditError, UsageError
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.metadata import triton_launch
from ptxaudit.intake.sources import find_images
from ptxaudit.intake.walk import Part, walk
from ptxaudit.limits import in_force, limits
from ptxaudit.rules.model import AuditReport

_CODE_TYPES = {"cubin": ImageKind.CUBIN, "ptx": ImageKind.PTX}


def audit(
    kernels: object,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    kernel: str | None = None,
    arch: str | None = None,
    launch: str | os.PathLike[str] | None = None,
    strict: bool = False,
    jobs: int = 1,
    assemble: bool = True,
    config: str | os.PathLike[str] | None = None,
) -> AuditReport:
    """Audit kernels and return the report.

    ``kernels`` is a path (of anything that the command line takes), bytes of such a file, a kernel that
    Triton compiled, a ``cuda.core`` ``ObjectCode``, a kernel of the CuTe DSL compiled with
    ``CUTE_DSL_KEEP=ptx,cubin``, a :class:`KernelImage`, or several of these. The other arguments are those of
    ``ptxaudit audit``. An input that cannot be read is in the report's ``inputs`` with its ``error``.

    ``config`` is a settings file, ``ptxaudit.toml`` or ``pyproject.toml``: its rules where none are selected,
    its severities, thresholds, suppressions and baseline hold then. Without it no settings are looked for.

    Raises :class:`UsageError` for an object that holds no kernel and for wrong options, and
    :class:`PtxauditError` when a check failed, which is a fault of ptxaudit.
    """
    try:
        selection = Selection(
            None if kernel is None else re.compile(kernel), None if arch is None else parse_architecture(arch)
        )
    except re.error as error:
        raise UsageError(f"kernel: found {kernel!r}, expected a regular expression ({error})") from error
    settings = Settings() if config is None else read_settings(Path(config))
    registry = load_registry()
    settings.require_known(registry)
    described = settings.launch if launch is None else Path(launch)
    options = AuditOptions(
        rules=select_rules(registry, select or settings.select, (*ignore, *settings.ignore)),
        kernel=selection.kernel,
        architecture=selection.architecture,
        strict=strict or settings.strict,
        jobs=jobs,
        launches=() if described is None else read_launches(described),
        assemble=assemble,
        limits=limits().changed(settings.limits),
        thresholds=settings.set_thresholds,
    )
    with in_force(options.limits):
        run = audit_images(_images(kernels, WalkOptions(selection)), options)
    if run.internal_errors:
        raise PtxauditError(run.internal_errors[0].message)
    baseline = None if settings.baseline is None else read_baseline(settings.baseline)
    return decided(run.report, Decisions(settings, registry, baseline, datetime.date.today()))


def _images(kernels: object, options: WalkOptions) -> Iterator[Found]:
    if isinstance(kernels, str | os.PathLike):
        yield from find_images([os.fspath(kernels)], options)
    elif isinstance(kernels, bytes | bytearray | memoryview):
        yield from walk(Part(BytesIO(kernels), Place(("<bytes>",)), options))
    elif isinstance(kernels, KernelImage):
        yield kernels
    elif isinstance(getattr(kernels, "asm", None), Mapping):
        yield from _of_triton(kernels)
    elif hasattr(kernels, "code") and hasattr(kernels, "code_type"):
        yield _of_object_code(kernels)
    elif _dsl_images(kernels):
        yield from _dsl_images(kernels)
    elif isinstance(kernels, Iterable):
        for one in kernels:
            yield from _images(one, options)
    else:
        raise UsageError(f"found {type(kernels).__name__}, expected a path, bytes or a compiled kernel")


def _of_triton(compiled: Any) -> Iterator[KernelImage]:
    """PTX and cubin of a ``triton.compiler.CompiledKernel``, with what its metadata says of the launch."""
    metadata = compiled.metadata._asdict()
    name, launch = str(metadata.get("name", "kernel")), triton_launch(metadata)
    launches = () if launch is None else (launch,)
    for kind in ImageKind:
        content = compiled.asm.get(kind.value)
        if content is not None:
            place = Place((f"<triton {name}>.{kind.value}",))
            yield KernelImage(place, _bytes(content), kind, unit=f"triton {name}", launches=launches)


def _of_object_code(compiled: Any) -> KernelImage:
    kind = _CODE_TYPES.get(compiled.code_type)
    if kind is None:
        raise UsageError(f"found object code of type {compiled.code_type!r}, expected cubin or ptx")
    name = getattr(compiled, "name", "") or "object code"
    return KernelImage(Place((f"<{name}>.{kind.value}",)), _content(compiled.code), kind)


def _dsl_images(compiled: object) -> list[KernelImage]:
    """What the CuTe DSL kept of a kernel; empty when it kept nothing or this is no such kernel."""
    name = getattr(compiled, "function_name", type(compiled).__name__)
    kept = ((kind, getattr(compiled, f"__{kind.value}__", None)) for kind in ImageKind)
    return [
        KernelImage(Place((f"<cute {name}>.{kind.value}",)), _content(content), kind, unit=f"cute {name}")
        for kind, content in kept
        if isinstance(content, bytes | str) and content
    ]


def _content(code: bytes | str) -> bytes:
    """Code that is given as such, or as the path of a file that has it."""
    if isinstance(code, str) and "\n" not in code and Path(code).is_file():
        return Path(code).read_bytes()
    return _bytes(code)


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else bytes(content)
