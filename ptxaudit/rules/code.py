"""A function's code as a page shows it: lines of PTX and SASS, what became of what, blocks, roles, costs.

Everything is by position in a function's instructions, so that the record is small and holds no IR.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ptxaudit.rules.budget import Budget
from ptxaudit.rules.model import Confidence


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Instructions ``start`` to ``end`` (exclusive); ``successors`` are indices of blocks, the fall-through
    first. ``name`` is how :attr:`ptxaudit.rules.model.Finding.path` calls it."""

    name: str
    start: int
    end: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodeLoop:
    """A natural loop by its blocks; ``depth`` is 1 for an outermost one. ``polls`` says that it only waits,
    ``hot`` that it does work and holds no other loop that does."""

    header: int
    blocks: tuple[int, ...]
    depth: int
    polls: bool
    hot: bool


@dataclass(frozen=True, slots=True)
class CodeText:
    """A function in one language.

    ``lines`` are the text from the 1-based line ``first`` of ``listing`` on; ``line_of`` gives for each
    instruction its index into ``lines``. ``offsets`` are the byte offsets of the instructions (SASS, empty
    for PTX). ``sources`` gives for instructions a place in :attr:`FunctionCode.sources`,
    ``synchronisation`` the kinds of synchronisation that they are. ``budget`` is what these cost.
    """

    language: str
    listing: str
    first: int
    lines: tuple[str, ...]
    line_of: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    sources: Mapping[int, int] = field(default_factory=dict)
    synchronisation: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    blocks: tuple[CodeBlock, ...] = ()
    loops: tuple[CodeLoop, ...] = ()
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class CodeRole:
    """Warps of one CTA that act alike: what they do with the number of places, and for each language the
    blocks that they are known to execute."""

    name: str
    cta: int
    activities: tuple[tuple[str, int], ...]
    blocks: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class CodeSource:
    """A line of the source; ``caller`` is the place in the sources that it was inlined at, if it was."""

    file: str
    line: int
    caller: int | None = None


@dataclass(frozen=True, slots=True)
class CodePairs:
    """How PTX and SASS belong together: ``ptx_of`` gives for SASS instructions the PTX instruction that they
    come from, ``telling`` are those among them that show what the PTX instruction does."""

    ptx_of: Mapping[int, int]
    telling: frozenset[int]
    method: str
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class FunctionCode:
    """All that a page shows of one function's code, in one language or in both.

    ``source_texts`` has the lines of the sources that could be read, by file and line.
    """

    name: str
    demangled: str
    texts: tuple[CodeText, ...]
    pairs: CodePairs | None = None
    roles: tuple[CodeRole, ...] = ()
    sources: tuple[CodeSource, ...] = ()
    source_texts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
