"""Results of earlier audits, used again where everything that they rest on is the same.

The key of a result is a hash of the content of its images and what came with them, the rules and options, the
code and patterns of ptxaudit itself, the disassembler and assembler, and the libraries that can change a
result. Where an image lies is not part of it: images are audited under a name made of their content, and the
real name is put into the result, so that a kernel that moved is not audited again.

What a result rests on beyond its key are the sources that were looked at: they are read and compared each
time. Not kept is what may come out differently the next time: faults, inputs that cannot be read, audits so
long that a limit of time may have ended a part of them, and those in which a tool failed for its own reasons.
"""

import hashlib
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ptxaudit.engine import serialization
from ptxaudit.engine.image import KernelImage, Place
from ptxaudit.engine.launches import launch_identities
from ptxaudit.engine.registry import ShippedCheck
from ptxaudit.engine.results import AuditOptions, ImageResult
from ptxaudit.engine.sources import source_digest, sources_beside
from ptxaudit.engine.store import ResultStore
from ptxaudit.engine.units import Task
from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass.tools import find_tool, tool_version
from ptxaudit.resources import patterns_root
from ptxaudit.stopwatch import STOPWATCH, Stage

_PACKAGE = Path(__file__).resolve().parent.parent
# Whatever has come to a limit of time (300 s of an exploration, or of a tool) has taken longer than this.
_LONGEST_SECONDS = 280.0
_LIBRARIES = (
    "numpy",
    "pyelftools",
    "pycxxfilt",
    "regex",
    "rustworkx",
    "graphlay",
    "cuda-bindings",
    "nvidia-nvjitlink",
)
_TOOLS = ("nvdisasm", "ptxas")


class Recall:
    """Looks results up in a store and keeps new ones there; ``options`` are those of the audit.

    Rules that are not those of this installation are nowhere in the key: their results are not kept.
    """

    def __init__(self, store: ResultStore, options: AuditOptions) -> None:
        self._store = store
        shipped = all(isinstance(rule.check, ShippedCheck) for rule in options.rules)
        self._basis = _basis(options) if shipped else None
        # What is packed cannot be given other names.
        self._by_name = options.pack is not None

    @property
    def trouble(self) -> str | None:
        """Why results are not kept, if they are not: one line."""
        return self._store.trouble

    def has(self, image: KernelImage) -> bool:
        """Whether an earlier audit of an image alone gave a result that holds."""
        return self.known((image,)) is not None

    @STOPWATCH.stage(Stage.STORE)
    def known(self, images: tuple[KernelImage, ...]) -> tuple[ImageResult, ...] | None:
        """What an earlier audit of the same gave, under the names of these images."""
        key = self._key(images)
        content = None if key is None else self._store.get(key)
        if content is None:
            return None
        try:
            names = {} if self._by_name else _names(images)
            results = serialization.from_bytes(content, _renaming(names))
            with sources_beside(images[0].folder):
                return results if all(_is_current(one) for one in results) else None
        except Exception:  # whatever a content that is not ours brings about
            return None

    def prepared(self, task: Task) -> Task:
        """The task with its images under the names for which results are kept."""
        if self._by_name or self._key(task.images) is None:
            return task
        return Task(tuple(_stand_in(image) for image in task.images), _names(task.images))

    @STOPWATCH.stage(Stage.STORE)
    def kept(self, task: Task, results: tuple[ImageResult, ...]) -> tuple[ImageResult, ...]:
        """What the audit of a prepared task gave, under the real names of its images, and kept."""
        key = self._key(task.images)
        if key is not None and all(_is_lasting(one) for one in results):
            content = serialization.to_bytes(tuple(replace(one, timings={}) for one in results))
            if content is not None:
                self._store.put(key, content)
        renamed = _renaming(task.names)
        return tuple(_renamed(one, renamed) for one in results)

    def _key(self, images: tuple[KernelImage, ...]) -> str | None:
        # A source that was compiled is named in findings, and its lines are put first there.
        if self._basis is None or any(image.source is not None for image in images):
            return None
        parts = [(image.name if self._by_name else "", *_identity(image)) for image in images]
        return hashlib.sha256(repr((self._basis, parts)).encode()).hexdigest()


def _identity(image: KernelImage) -> tuple[object, ...]:
    """What an audit of an image rests on, but for where it lies."""
    launches = launch_identities(image.launches)
    in_container = len(image.place.parts) > 1
    return image.sha256, image.kind.value, str(image.architecture), launches, in_container


def _basis(options: AuditOptions) -> str:
    """Everything but the images on which a result rests."""
    asked = (
        [rule.id for rule in options.rules],
        None if options.kernel is None else (options.kernel.pattern, options.kernel.flags),
        None if options.architecture is None else options.architecture.name,
        options.strict,
        launch_identities(options.launches),
        options.count,
        options.listings,
        options.assemble,
        options.scan,
        options.budget,
        options.roles,
        repr(options.limits),
        options.thresholds.identity(),
        None if options.pack is None else f"{options.pack.__module__}.{options.pack.__qualname__}",
    )
    return repr((environment(), asked))


def environment() -> str:
    """What results rest on beside images, rules and options: code, patterns, tools and libraries."""
    tools = [_tool_identity(name) for name in _TOOLS]
    return repr((own_code(), sys.version_info[:2], platform.machine(), _versions(), tools))


@cache
def own_code() -> str:
    """A hash of ptxaudit's code, tables and patterns: in a checkout a version says too little."""
    digest = hashlib.sha256()
    for root in (_PACKAGE, patterns_root()):
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
                digest.update(content)
    return digest.hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    return tuple(f"{name} {_version(name)}" for name in _LIBRARIES)


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _tool_identity(name: str) -> str | None:
    try:
        return tool_version(find_tool(name))
    except ToolError:
        return None


def _is_lasting(result: ImageResult) -> bool:
    if result.report is not None and result.report.error is not None:
        return False
    if result.internal_errors or result.disturbed:
        return False
    if any(function.incomplete is not None for function in result.functions):
        return False
    return sum(result.timings.values()) < _LONGEST_SECONDS


def _is_current(result: ImageResult) -> bool:
    return all(source_digest(file) == digest for file, digest in result.consulted.items())


def _stand_in(image: KernelImage) -> KernelImage:
    """The image under a name that is made of its content, and that no content can hold."""
    name = f"<{image.kind} {image.sha256}>"
    place = Place((name,) if len(image.place.parts) == 1 else (name, "member"))
    started = None if image.started is None else image.started.called(str(place))
    return replace(image, place=place, started=started, file=image.file or image.place.parts[0])


def _names(images: tuple[KernelImage, ...]) -> dict[str, str]:
    return {_stand_in(image).name: image.name for image in images}


def _renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Puts the names into texts in place of those that stood in for them. Equal texts become one: a library's
    results repeat the name of a file at every place."""

    @cache
    def renamed(text: str) -> str:
        for stand_in, name in names.items():
            text = text.replace(stand_in, name)
        return text

    return renamed


def _renamed(value: Any, called: Callable[[str], str]) -> Any:
    """A copy in which every text is as ``called`` says."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return called(value)
    if isinstance(value, tuple):
        return tuple(_renamed(one, called) for one in value)
    if isinstance(value, dict):
        return {_renamed(key, called): _renamed(one, called) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        values = {one.name: _renamed(getattr(value, one.name), called) for one in fields(value)}
        return replace(value, **values)
    return value
