"""The syntax tree of PTX (ISA 6.0 to 9.5): what is written, before names are resolved.

Nodes compare by content; their places in the text (``offset``, ``end``) do not take part in equality,
so that a printed and re-read tree equals the original. Comments and layout are not kept. Text that
carries meaning in its spelling, such as ``0f3F800000``, is kept as spelled.
"""

from dataclasses import dataclass, field

# --- Operands and constant expressions (PTX ISA 4.5, 6) ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier, with its component where it has one: ``%r1``, ``%tid.x``, ``v.x``, ``_``."""

    text: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number as spelled."""

    text: str


@dataclass(frozen=True, slots=True)
class Unary:
    """``-a``, ``!a``, ``~a``, ``+a``."""

    operator: str
    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Binary:
    """``a + b`` and the other binary operators of constant expressions and addresses."""

    operator: str
    left: "Operand"
    right: "Operand"


@dataclass(frozen=True, slots=True)
class Conditional:
    """``a ? b : c``."""

    condition: "Operand"
    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Cast:
    """``(.s64) a`` and ``(.u64) a`` of constant expressions."""

    type: str
    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Applied:
    """``generic(a)`` and ``0xFF(a)`` of initialisers (PTX ISA 5.4.4)."""

    function: "Name | Literal"
    argument: "Operand"


@dataclass(frozen=True, slots=True)
class Address:
    """``[a+4]``, ``[map, {x, y}]``; ``suffix`` is what follows the bracket (``.unified``)."""

    parts: "tuple[Operand, ...]"
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class VectorList:
    """``{a, b}``."""

    elements: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class ArgumentList:
    """``(a, b)`` of ``call``."""

    elements: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Assignment:
    """``filter_mode = linear`` in the initialiser of a sampler."""

    name: str
    value: "Operand"


Operand = (
    Name
    | Literal
    | Unary
    | Binary
    | Conditional
    | Cast
    | Applied
    | Address
    | VectorList
    | ArgumentList
    | Pair
    | Assignment
)

# --- Declarations (PTX ISA 5.4, 11) --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attribute:
    """``.attribute(.managed)``, ``.attribute(.unified(1, 2))``."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Declarator:
    """One declared name: ``count`` of ``%r<10>``, ``dimensions`` (``None`` for ``[]``), initialiser."""

    name: str
    count: int | None = None
    dimensions: tuple[int | None, ...] = ()
    initializer: Operand | None = None


@dataclass(frozen=True, slots=True)
class VariableDeclaration:
    """A declaration in any space; also a parameter, then with one declarator.

    ``pointer`` is true for ``.ptr``, with ``pointer_space`` and ``alignment`` what follows it.
    """

    space: str
    type: str
    declarators: tuple[Declarator, ...]
    linkage: str = ""
    attributes: tuple[Attribute, ...] = ()
    alignment: int | None = None
    vector: int = 1
    pointer: bool = False
    pointer_space: str = ""
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class FunctionDirective:
    """A directive between a function's header and body: ``.reqntid 128, 1, 1``, ``.noreturn``."""

    name: str
    arguments: tuple[str, ...] = ()


# --- Statements ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction statement; ``opcode`` has its modifiers. ``end`` is the offset of its ``;``."""

    guard: Guard | None
    opcode: str
    operands: tuple[Operand, ...]
    offset: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Label:
    """``name:``."""

    name: str
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """``.loc file line column``, with the inlining that may follow."""

    file: int
    line: int
    column: int
    function_name: str = ""
    function_offset: int = 0
    inlined_at: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Pragma:
    """``.pragma "nounroll";``; the strings are kept with their quotes' content as spelled."""

    strings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchTargets:
    """``label: .branchtargets A, B;``."""

    label: str
    targets: tuple[str, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallTargets:
    """``label: .calltargets f, g;``."""

    label: str
    targets: tuple[str, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallPrototype:
    """``label: .callprototype (returns) _ (parameters) directives;``."""

    label: str
    returns: tuple[VariableDeclaration, ...] | None
    name: str
    parameters: tuple[VariableDeclaration, ...] | None
    directives: tuple[FunctionDirective, ...] = ()
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Scope:
    """``{ ... }``, with its own registers, variables and labels (PTX ISA 5.2; inline assembly)."""

    statements: "tuple[Statement, ...]"
    offset: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


Statement = (
    Instruction
    | Label
    | SourceLocation
    | VariableDeclaration
    | Scope
    | Pragma
    | BranchTargets
    | CallTargets
    | CallPrototype
)

# --- Module items ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """``.version major.minor``."""

    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Target:
    """``.target sm_90a, debug``."""

    options: tuple[str, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class AddressSize:
    """``.address_size 64``."""

    bits: int


@dataclass(frozen=True, slots=True)
class File:
    """``.file index "name"``, with modification time and size where given."""

    index: int
    name: str
    timestamp: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class DebugData:
    """``.b8 1, 2`` and labels' addresses inside a ``.section``."""

    type: str
    values: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """``.section .debug_info { ... }`` (DWARF)."""

    name: str
    items: tuple[DebugData | Label, ...]


@dataclass(frozen=True, slots=True)
class DwarfLine:
    """``@@DWARF ...``, the DWARF syntax from before ``.section``; kept as text."""

    text: str


@dataclass(frozen=True, slots=True)
class Alias:
    """``.alias name, aliasee;``."""

    name: str
    aliasee: str


@dataclass(frozen=True, slots=True)
class Function:
    """An ``.entry`` or ``.func``; ``body`` is ``None`` for a declaration, lists ``None`` where absent."""

    kind: str
    name: str
    linkage: str = ""
    attributes: tuple[Attribute, ...] = ()
    returns: tuple[VariableDeclaration, ...] | None = None
    parameters: tuple[VariableDeclaration, ...] | None = None
    directives: tuple[FunctionDirective | Pragma, ...] = ()
    body: Scope | None = None
    offset: int = field(default=0, compare=False)


Item = (
    Version
    | Target
    | AddressSize
    | File
    | Section
    | DwarfLine
    | Alias
    | Pragma
    | SourceLocation
    | VariableDeclaration
    | Function
)


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX source module. The first item is its :class:`Version`."""

    items: tuple[Item, ...]

    @property
    def version(self) -> tuple[int, int]:
        """The PTX ISA version of the first ``.version``."""
        found = next(item for item in self.items if isinstance(item, Version))
        return found.major, found.minor

    @property
    def target(self) -> Target:
        """The first ``.target``."""
        return next(item for item in self.items if isinstance(item, Target))
