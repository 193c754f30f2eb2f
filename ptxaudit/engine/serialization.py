"""Results as bytes: JSON that can be read back into records of results and nothing else.

A file that others may write can neither run anything when it is read nor stand for more memory than some
times its length: values form a tree, and what the reader makes of one is as large as the text is long.
Texts, numbers, truth values and ``None`` are those of JSON. Everything else is a list whose first entry says
what it is: the name of a record (a dataclass, its values in the order of its fields) or of an enumeration
(the name of its member), or ``t``, ``f``, ``d`` and ``b`` for tuples, frozen sets, dictionaries (keys and
values in turn) and bytes (in base64).
"""

import base64
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from ptxaudit import source
from ptxaudit.engine import results as image_results
from ptxaudit.engine.results import ImageResult
from ptxaudit.engine.store import MOST_BYTES
from ptxaudit.rules import budget, model

_HELD_IN = (image_results, budget, model, source)
# A list takes 40 times its shortest text.
_MOST_LISTS = 1 << 21
_AS_THEY_ARE = frozenset({int, float, bool, type(None)})
_TUPLE, _SET, _DICTIONARY, _BYTES = "t", "f", "d", "b"


class NoResult(ValueError):
    """What was read is no result."""


def to_bytes(results: tuple[ImageResult, ...]) -> bytes | None:
    """Results as bytes, ``None`` where they could not be read back: too large, or of other values."""
    try:
        content = json.dumps(_plain(results), separators=(",", ":")).encode("ascii")
    except NoResult:
        return None
    return content if _is_small(content) else None


def from_bytes(content: bytes, called: Callable[[str], str]) -> tuple[ImageResult, ...]:
    """The results that :func:`to_bytes` wrote, every text as ``called`` says.

    Raises :class:`NoResult`, or whatever a record's constructor does, for anything else.
    """
    if not _is_small(content):
        raise NoResult("found too much for a result")
    found = _reader(called)(json.loads(content))
    if not isinstance(found, tuple) or not all(isinstance(one, ImageResult) for one in found):
        raise NoResult("found something else, expected results")
    return found


def _is_small(content: bytes) -> bool:
    return len(content) <= MOST_BYTES and content.count(b"[") + content.count(b"{") <= _MOST_LISTS


def _plain(value: Any) -> Any:
    """A value as JSON has it; of records and enumerations those of results alone."""
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if isinstance(value, Enum):
        return [_held_name(kind), value.name]
    if is_dataclass(value):
        record = _held_name(kind)
        return [record, *(_plain(getattr(value, name)) for name in _field_names(record))]
    if kind is tuple:
        return [_TUPLE, *map(_plain, value)]
    if kind is frozenset:
        return [_SET, *map(_plain, sorted(value))]
    if kind is dict:
        return [_DICTIONARY, *(_plain(one) for item in value.items() for one in item)]
    if kind is bytes:
        return [_BYTES, base64.b64encode(value).decode("ascii")]
    raise NoResult(f"{kind} is not kept in results")


def _reader(called: Callable[[str], str]) -> Callable[[Any], Any]:
    """Makes values of what JSON has: one closure, since a library's results are millions of values."""
    held = _held()
    members = {name: kind.__members__ for name, kind in held.items() if issubclass(kind, Enum)}
    records = {
        name: (kind, len(_field_names(name)) + 1) for name, kind in held.items() if name not in members
    }

    def built(value: Any) -> Any:
        if value.__class__ is str:
            return called(value)
        if value.__class__ is not list:
            if value.__class__ is dict:
                raise NoResult("found a JSON object")
            return value
        kind = value[0]
        if kind in members:
            return members[kind][value[1]]
        if kind == _BYTES:
            return base64.b64decode(value[1])
        parts = [one if one.__class__ in _AS_THEY_ARE else built(one) for one in value]
        if kind in records:
            record, length = records[kind]
            if len(parts) == length:
                return record(*parts[1:])
        elif kind == _TUPLE:
            return tuple(parts[1:])
        elif kind == _DICTIONARY:
            return dict(zip(parts[1::2], parts[2::2], strict=True))
        elif kind == _SET:
            return frozenset(parts[1:])
        raise NoResult("found no kind of value that results hold")

    return built


def _held_name(kind: type) -> str:
    if _held().get(kind.__name__) is not kind:
        raise NoResult(f"{kind} is not kept in results")
    return kind.__name__


@cache
def _held() -> dict[str, type]:
    """Records and enumerations that results may hold, by name."""
    found: dict[str, type] = {}
    for module in _HELD_IN:
        for name, kind in vars(module).items():
            is_own = isinstance(kind, type) and kind.__module__ == module.__name__
            if is_own and (is_dataclass(kind) or issubclass(kind, Enum)):
                found[name] = kind
    return found


@cache
def _field_names(record: str) -> tuple[str, ...]:
    kind = _held()[record]
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()
