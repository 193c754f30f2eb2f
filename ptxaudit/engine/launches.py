"""Reads launch descriptions (``--launch FILE``), so that what a kernel does not state need not be guessed.

A TOML file with one table per kernel, the first whose regular expression matches its name holds::

    [[launch]]
    kernel = "gemm.*"            # default: every kernel
    block = [384, 1, 1]          # one to three numbers
    cluster = [2, 1, 1]
    grid = [132, 1, 1]
    dynamic_shared = 196608      # bytes
    [launch.arguments]           # by position, integers only
    2 = 4096
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ptxaudit.arch import MOST_CTAS_PER_CLUSTER, MOST_THREADS_PER_CTA
from ptxaudit.errors import UsageError, system_reason
from ptxaudit.ir.function import Function, Language, LaunchFacts
from ptxaudit.ir.launch import Launch
from ptxaudit.schema import schema_fault
from ptxaudit.words import counted

_EXTENT = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "minimum": 1}}
_SCHEMA = {
    "type": "object",
    "required": ["launch"],
    "additionalProperties": False,
    "properties": {
        "launch": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "kernel": {"type": "string"},
                    "block": _EXTENT,
                    "cluster": _EXTENT,
                    "grid": _EXTENT,
                    "dynamic_shared": {"type": "integer", "minimum": 0},
                    "arguments": {
                        "type": "object",
                        "propertyNames": {"pattern": "^[0-9]+$"},
                        "additionalProperties": {"type": "integer"},
                    },
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class NamedLaunch:
    """A launch and the kernels it is of; ``origin`` says where it stands, if a user wrote it."""

    kernel: re.Pattern[str]
    launch: Launch
    origin: str | None = None

    @classmethod
    def of(cls, name: str, launch: Launch) -> "NamedLaunch":
        """The launch of the one kernel that has this name."""
        return cls(re.compile(f"^{re.escape(name)}$"), launch)


def launch_identities(launches: Iterable[NamedLaunch]) -> tuple[object, ...]:
    """What tells launches from others; how a pattern is printed is cut short."""
    return tuple((one.kernel.pattern, one.kernel.flags, repr(one.launch)) for one in launches)


def read_launches(path: Path) -> tuple[NamedLaunch, ...]:
    """The launches of a file. Raises :class:`UsageError` naming the file and the key at fault."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--launch {path}: {system_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--launch {path}: found no TOML, expected launch descriptions ({error})") from error
    fault = schema_fault(_SCHEMA, document)
    if fault is not None:
        raise UsageError(f"--launch {path}: {fault}")
    return tuple(_named(path, number, entry) for number, entry in enumerate(document["launch"], 1))


def launch_of(launches: tuple[NamedLaunch, ...], name: str, demangled: str) -> Launch | None:
    """The first launch whose kernel expression matches a function's name."""
    named = _first(launches, name, demangled)
    return None if named is None else named.launch


def _first(launches: Iterable[NamedLaunch], name: str, demangled: str) -> NamedLaunch | None:
    return next((one for one in launches if one.kernel.search(name) or one.kernel.search(demangled)), None)


def unused_launches(launches: Iterable[NamedLaunch], names: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line on each launch that a user wrote and no function has; ``names`` are (mangled, demangled)."""
    written = [one for one in launches if one.origin is not None]
    used: set[int] = set()
    for name, demangled in names if written else ():
        first = _first(written, name, demangled)
        used.update([] if first is None else [id(first)])
    for one in written:
        if id(one) not in used:
            meant = f"kernel = {one.kernel.pattern!r}" if one.kernel.pattern else "every kernel"
            yield f"{one.origin} ({meant}) is of no kernel of this audit that an earlier one is not of"


def overridden(launch: Launch | None, facts: LaunchFacts) -> Iterator[str]:
    """What a launch description says otherwise than the code, which is believed."""
    if launch is None:
        return
    for what, said, stated in (
        ("block", launch.block, facts.required_threads),
        ("cluster", launch.cluster, facts.cluster),
    ):
        if said is not None and stated is not None and said != stated:
            differing = f"{what} {_shown(said)}, the code {_shown(stated)}"
            yield f"the launch description says {differing}, which is taken"
    most = facts.maximum_threads
    if launch.block is not None and most is not None and prod(launch.block) > prod(most):
        yield (
            f"the launch description says block {_shown(launch.block)}, which is more than the code allows "
            f"({prod(most)} threads)"
        )


def without_effect(launch: Launch | None, function: Function) -> Iterator[str]:
    """What a launch description says of arguments that a kernel cannot take."""
    if launch is None or not launch.arguments or not function.is_entry:
        return
    if function.language is Language.SASS:
        yield "the arguments of the launch description have no effect on SASS, which loads them by address"
        return
    number = len(function.parameters)
    beyond = sorted(position for position in launch.arguments if position >= number)
    if beyond:
        has = "has no parameter" if not number else f"has {counted(number, 'parameter')}, the first is 0"
        given = f"argument{'' if len(beyond) == 1 else 's'} {', '.join(map(str, beyond))}"
        yield f"the launch description gives {given}, and the kernel {has}: without effect"


def _shown(extent: tuple[int, int, int]) -> str:
    return "x".join(map(str, extent))


def completed(first: Launch | None, second: Launch | None) -> Launch | None:
    """What the first says, and where it says nothing what the second does."""
    if first is None or second is None:
        return first or second
    return Launch(
        block=first.block or second.block,
        cluster=first.cluster or second.cluster,
        grid=first.grid or second.grid,
        dynamic_shared=second.dynamic_shared if first.dynamic_shared is None else first.dynamic_shared,
        arguments={**second.arguments, **first.arguments},
    )


def _named(path: Path, number: int, entry: dict[str, Any]) -> NamedLaunch:
    pattern = entry.get("kernel", "")
    try:
        kernel = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--launch {path}: found {pattern!r}, expected a regular expression") from error
    for key, most in (("block", MOST_THREADS_PER_CTA), ("cluster", MOST_CTAS_PER_CLUSTER)):
        if prod(entry.get(key, [])) > most:
            raise UsageError(f"--launch {path}: {key}: found {entry[key]}, expected at most {most} in all")
    arguments = {int(position): value for position, value in entry.get("arguments", {}).items()}
    return NamedLaunch(
        kernel,
        Launch(
            _extent(entry.get("block")),
            _extent(entry.get("cluster")),
            _extent(entry.get("grid")),
            entry.get("dynamic_shared"),
            arguments,
        ),
        f"{path} [[launch]] {number}",
    )


def _extent(sizes: list[int] | None) -> tuple[int, int, int] | None:
    if sizes is None:
        return None
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
