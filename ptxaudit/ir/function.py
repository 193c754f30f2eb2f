"""Functions and modules of either language, with the launch facts that their directives state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ptxaudit.arch import Architecture
from ptxaudit.ir.instruction import Instruction
from ptxaudit.source import SourceLine


class Language(StrEnum):
    """The language a function was read in."""

    PTX = "ptx"
    SASS = "sass"


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter; ``size`` in bytes, ``None`` for an unsized ``extern`` array."""

    name: str
    space: str
    size: int | None
    alignment: int
    external: bool = False


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What the code itself states about its launch; ``None`` where it states nothing.

    ``required_threads`` from ``.reqntid``, ``maximum_threads`` from ``.maxntid`` or ``.nv.info``
    MAX_THREADS, ``cluster`` from ``.reqnctapercluster`` or CTA_PER_CLUSTER (x, y, z),
    ``explicit_cluster`` when the launch must be a cluster launch, ``maximum_registers`` per thread,
    ``minimum_ctas`` per multiprocessor, ``registers`` the allocation that ptxas chose (SASS only).
    """

    required_threads: tuple[int, int, int] | None = None
    maximum_threads: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    explicit_cluster: bool = False
    maximum_cluster_rank: int | None = None
    maximum_registers: int | None = None
    minimum_ctas: int | None = None
    registers: int | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def threads(self) -> int | None:
        """Threads per CTA where the code fixes them."""
        if self.required_threads is None:
            return None
        x, y, z = self.required_threads
        return x * y * z

    @property
    def cluster_size(self) -> int | None:
        """CTAs per cluster where the code fixes them."""
        if self.cluster is None:
            return None
        x, y, z = self.cluster
        return x * y * z


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions ``start`` to ``end`` (exclusive indices into the function) with one entry and one exit.

    ``start_position`` and ``end_position`` are what a person sees: byte offsets in the section for
    SASS (end exclusive), line numbers for PTX (end exclusive). ``successors`` are block ids, the
    fall-through first where there is one.
    """

    id: int
    start: int
    end: int
    start_position: int
    end_position: int
    successors: tuple[int, ...]
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """How a SASS instruction takes part in the counting of results that are still to come.

    ``written`` is the scoreboard that is counted down when its results are in their registers, ``None``
    if they are known to be in time; ``waits`` has a bit for each scoreboard that must be at zero before
    the instruction is issued.
    """

    written: int | None
    waits: int


@dataclass(frozen=True, slots=True)
class Function:
    """One kernel or device function. ``blocks[0]`` is the entry; block ids are indices into ``blocks``.

    ``scoreboards`` are those of the instructions, by index, or empty where they are not known,
    ``constants`` the constant banks that the compiler filled (SASS). ``source_lines`` are the lines of the
    source that the instructions come from, by index, where the code says (PTX). Of a function that was not
    read because it has nothing that was sought, ``opcode_counts`` says how many instructions of some roots
    it has.
    """

    name: str
    demangled: str
    language: Language
    architecture: Architecture
    is_entry: bool
    instructions: tuple[Instruction, ...]
    blocks: tuple[BasicBlock, ...]
    facts: LaunchFacts = LaunchFacts()
    parameters: tuple[Variable, ...] = ()
    variables: tuple[Variable, ...] = ()
    register_types: Mapping[str, str] = field(default_factory=dict)
    isa_version: tuple[int, int] | None = None
    jump_tables: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    scoreboards: tuple[Scoreboard, ...] = ()
    constants: Mapping[int, bytes] = field(default_factory=dict)
    source_lines: Mapping[int, SourceLine] = field(default_factory=dict)
    opcode_counts: Mapping[str, int] | None = None

    def block_of(self, index: int) -> BasicBlock:
        """The block that holds instruction ``index``."""
        low, high = 0, len(self.blocks)
        ordered = self.blocks
        while low < high:
            middle = (low + high) // 2
            if ordered[middle].end <= index:
                low = middle + 1
            else:
                high = middle
        return ordered[low]


@dataclass(frozen=True, slots=True)
class Note:
    """Something a front end wants said once, such as an opcode that its tables do not know."""

    message: str
    location: str


@dataclass(frozen=True, slots=True)
class UnreadFunction:
    """A function that could not be read where others of its file could; ``reason`` in a line."""

    name: str
    demangled: str
    architecture: Architecture
    is_entry: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Module:
    """All functions of one PTX file or cubin. ``text`` is the PTX, or the SASS listing a report shows.

    ``unread`` are functions that are not among them because they could not be read. ``ruled_out`` are those
    that were not read because they have no instruction that was sought: what is known of them but their
    code, by the number of ``functions`` that stand before them.
    """

    name: str
    language: Language
    architecture: Architecture
    functions: tuple[Function, ...]
    text: str
    notes: tuple[Note, ...] = ()
    sha256: str = ""
    unread: tuple[UnreadFunction, ...] = ()
    ruled_out: Mapping[int, tuple[Function, ...]] = field(default_factory=dict)
