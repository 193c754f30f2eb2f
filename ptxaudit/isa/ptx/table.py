"""The PTX instruction table: syntax lines in the notation of the PTX manual, read from ``tables/*.txt``.

A table is a list of sections. ``== TITLE`` opens a section, ``#`` a comment. The other lines are

* a set of alternatives, ``.sem = .acquire | .relaxed``, known from its section on (those of
  ``common.txt`` everywhere). ``<1,2>`` and ``<8:256:8>`` inside an alternative stand for each of the values;
* a syntax line in up to three columns: the instruction's name, its modifiers, its operands.

Modifiers are ``.literal``, ``.set``, a choice ``(.a|.b)`` or an optional choice ``{.a|.b}``. A name may hold
optional components that do not belong to the canonical name (``bar{.cta}.sync`` is ``bar.sync``). Operands
are those of the manual; ``=d`` is written, ``+d`` is read and written, ``{, x}`` may be left out.

The order of the modifiers is that of the manual, for the reader: only membership is evaluated, since an
assembler decides which combinations are legal. Architectures and ISA versions are not recorded; section
numbers are those of PTX ISA 9.0 where no version is given.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

_TABLE_FILES = (
    "arithmetic.txt",
    "memory.txt",
    "async_copy.txt",
    "sync.txt",
    "matrix.txt",
    "control.txt",
    "texture_surface.txt",
    "video.txt",
)

Alternative = tuple[str, ...]
"""Components that one modifier position adds to an opcode, without dots (``('xorsign', 'abs')``)."""

Sets = dict[str, tuple[Alternative, ...]]

Spelling = tuple[tuple[str, ...], tuple[str, ...]]
"""The components of a spelled name, and those of them that the canonical name leaves out."""


class TableFault(ValueError):
    """A packaged table does not follow the notation: a defect of the package, not of an input."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand position of a syntax line."""

    written: bool
    read: bool
    optional: bool


@dataclass(frozen=True, slots=True)
class Form:
    """One syntax line: what its opcode must contain, may contain, and what its operands are for."""

    name: str
    required: tuple[frozenset[Alternative], ...]
    vocabulary: frozenset[str]
    operands: tuple[Operand, ...]

    @property
    def operand_range(self) -> tuple[int, int]:
        """The least and the greatest number of operands."""
        least = sum(not operand.optional for operand in self.operands)
        return least, len(self.operands)

    def accepts(self, modifiers: frozenset[str]) -> bool:
        """Whether an opcode with these modifiers can be this form: all required, none foreign."""
        return modifiers <= self.vocabulary and all(
            any(modifiers.issuperset(alternative) for alternative in choice) for choice in self.required
        )


@dataclass(frozen=True, slots=True)
class Table:
    """All forms by canonical name, and every spelling of a name."""

    forms: Mapping[str, tuple[Form, ...]]
    spellings: Mapping[tuple[str, ...], tuple[str, tuple[str, ...]]]
    """Components of a spelled name to (canonical name, optional components that the spelling contains)."""

    vocabularies: Mapping[str, frozenset[str]]
    """All modifiers known for a canonical name."""

    longest_spelling: int


_VALUES = re.compile(r"<([^<>]*)>")
_SET = re.compile(r"(\.[A-Za-z]\w*)\s*=\s*(\..*)")
_MODIFIER = re.compile(r"\{([^{}]*)\}|\(([^()]*)\)|(\.(?:[\w:]|<[^<>]*>)+)")
_NAME_PART = re.compile(r"\{\.([\w:]+)\}|\.?([\w:]+)")


def _values(text: str) -> list[str]:
    if ":" not in text:
        return text.split(",")
    first, last, step = (int(part) for part in text.split(":"))
    return [str(value) for value in range(first, last + 1, step)]


def _expand(text: str) -> Iterator[str]:
    """All spellings of a text with value lists: ``.m64n<8:24:8>k16`` gives three."""
    pieces = _VALUES.split(text)
    choices = [_values(piece) if index % 2 else [piece] for index, piece in enumerate(pieces)]
    for parts in itertools.product(*choices):
        yield "".join(parts)


def _alternatives(text: str, sets: Sets) -> tuple[Alternative, ...]:
    """The alternatives of ``.a|.b.c|.set``; a lone name of a set stands for its members."""
    result: list[Alternative] = []
    for item in text.split("|"):
        spelled = item.strip()
        if not spelled.startswith("."):
            raise TableFault(f"alternative {spelled!r} does not start with a dot")
        if spelled in sets:
            result.extend(sets[spelled])
        else:
            result.extend(tuple(expanded[1:].split(".")) for expanded in _expand(spelled))
    return tuple(result)


def _parse_modifiers(text: str, sets: Sets) -> tuple[tuple[frozenset[Alternative], ...], frozenset[str]]:
    required: list[frozenset[Alternative]] = []
    vocabulary: set[str] = set()
    position = 0
    while position < len(text):
        match = _MODIFIER.match(text, position)
        if match is None:
            raise TableFault(f"modifiers {text!r} do not follow the notation at {text[position:]!r}")
        position = match.end()
        alternatives = _alternatives(next(group for group in match.groups() if group is not None), sets)
        vocabulary.update(itertools.chain.from_iterable(alternatives))
        if not match.group().startswith("{"):
            required.append(frozenset(alternatives))
    return tuple(required), frozenset(vocabulary)


def _parse_operands(text: str) -> tuple[Operand, ...]:
    """Operand roles by position; the commas inside ``[a, b]`` do not separate operands."""
    flat = re.sub(r"\{,\s*([^{}]*)\}", r",?\1", text)
    spelled = [part.strip() for part in re.split(r",(?![^\[]*\])", flat) if part.strip()]
    return tuple(
        Operand(
            written=part.lstrip("?")[0] in "=+",
            read=part.lstrip("?")[0] != "=",
            optional=part.startswith("?"),
        )
        for part in spelled
    )


def _parse_name(text: str) -> tuple[str, list[Spelling]]:
    """The canonical name and its spellings, each with the optional components it contains."""
    parts = [(match[1] or match[2], match[1] is not None) for match in _NAME_PART.finditer(text)]
    canonical = ".".join(part for part, optional in parts if not optional)
    choices = [(True, False) if optional else (True,) for _, optional in parts]
    spellings = []
    for present in itertools.product(*choices):
        kept = [part for part, is_present in zip(parts, present, strict=True) if is_present]
        extra = tuple(part for part, optional in kept if optional)
        spellings.append((tuple(part for part, _ in kept), extra))
    return canonical, spellings


def _parse_line(line: str, sets: Sets) -> tuple[Form, list[Spelling]]:
    name, _, rest = line.partition(" ")
    modifiers, _, operands = rest.strip().partition(" ")
    if modifiers and modifiers[0] not in ".{(":
        modifiers, operands = "", rest
    canonical, spellings = _parse_name(name)
    required, vocabulary = _parse_modifiers(modifiers, sets)
    extra = frozenset(itertools.chain.from_iterable(optional for _, optional in spellings))
    return Form(canonical, required, vocabulary | extra, _parse_operands(operands)), spellings


def _read_lines(file_name: str) -> Iterator[str]:
    text = (files("ptxaudit.isa.ptx") / "tables" / file_name).read_text(encoding="utf-8")
    for line in text.splitlines():
        stripped = line.partition("#")[0].strip()
        if stripped:
            yield stripped


def _read_sets(lines: Iterator[str]) -> Sets:
    sets: Sets = {}
    for line in lines:
        match = _SET.fullmatch(line)
        if match is None:
            raise TableFault(f"expected a set of alternatives, found {line!r}")
        sets[match[1]] = _alternatives(match[2], sets)
    return sets


@lru_cache(maxsize=1)
def ptx_table() -> Table:
    """The table of all PTX instructions (ISA 6.0 to 9.5), read once from the package's data files.

    Raises ``TableFault`` if a data file does not follow the notation.
    """
    common = _read_sets(_read_lines("common.txt"))
    sets = dict(common)
    forms: dict[str, list[Form]] = {}
    spellings: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}
    for line in itertools.chain.from_iterable(_read_lines(name) for name in _TABLE_FILES):
        if line.startswith("=="):
            sets = dict(common)
        elif match := _SET.fullmatch(line):
            sets[match[1]] = _alternatives(match[2], sets)
        else:
            form, spelled = _parse_line(line, sets)
            forms.setdefault(form.name, []).append(form)
            spellings.update((components, (form.name, optional)) for components, optional in spelled)
    return Table(
        forms={name: tuple(lines) for name, lines in forms.items()},
        spellings=spellings,
        vocabularies={
            name: frozenset(itertools.chain.from_iterable(form.vocabulary for form in lines))
            for name, lines in forms.items()
        },
        longest_spelling=max(len(components) for components in spellings),
    )
