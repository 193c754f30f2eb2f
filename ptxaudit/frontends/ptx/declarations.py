"""Declarations and directives that occur at module level and in function bodies alike (PTX ISA 5.4, 11)."""

from ptxaudit.frontends.ptx.expressions import parse_initializer
from ptxaudit.frontends.ptx.lexer import Cursor
from ptxaudit.frontends.ptx.syntax import (
    Attribute,
    CallPrototype,
    Declarator,
    FunctionDirective,
    Pragma,
    SourceLocation,
    VariableDeclaration,
)

LINKAGES = frozenset({".visible", ".extern", ".weak", ".common"})
SPACES = frozenset(
    {".reg", ".sreg", ".const", ".global", ".local", ".param", ".shared", ".tex"}
    | {".shared::cta", ".shared::cluster", ".param::entry", ".param::func"}
)
TYPE_BITS = {
    **{f"{letter}{bits}": bits for letter in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "f16x2": 32,
    "f32": 32,
    "f64": 64,
    "bf16": 16,
    "bf16x2": 32,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "pred": 1,
    "texref": 64,
    "samplerref": 64,
    "surfref": 64,
}
_MOST_NUMBERED_VARIABLES = 65536
VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}

# Directives of a function's header by the least and the greatest number of arguments (PTX ISA 11.4).
FUNCTION_DIRECTIVES = {
    "maxnreg": (1, 1),
    "maxntid": (1, 3),
    "reqntid": (1, 3),
    "minnctapersm": (1, 1),
    "maxnctapersm": (1, 1),
    "noreturn": (0, 0),
    "abi_preserve": (1, 1),
    "abi_preserve_control": (1, 1),
    "reqnctapercluster": (1, 3),
    "explicitcluster": (0, 0),
    "maxclusterrank": (1, 1),
    "blocksareclusters": (0, 0),
    "local_maxnreg": (1, 1),
}
# A directive from after PTX ISA 9.5 is kept with what arguments it has.
_UNKNOWN_DIRECTIVE = (0, 8)


def parse_count(cursor: Cursor) -> int:
    """A non-negative integer."""
    return parse_integer(cursor.expect_kind("integer", "an integer").text)


def parse_integer(text: str) -> int:
    """The value of an integer literal as spelled (PTX ISA 4.5.1)."""
    digits = text.rstrip("Uu")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits, 2)
    if digits[:1] == "0" and digits.isdigit() and not set(digits) & {"8", "9"}:
        return int(digits, 8)
    return int(digits)


def parse_pragma(cursor: Cursor) -> Pragma:
    """``.pragma "a", "b";``."""
    cursor.expect(".pragma")
    strings = [cursor.expect_kind("string", "a quoted string").text[1:-1]]
    while cursor.accept(","):
        strings.append(cursor.expect_kind("string", "a quoted string").text[1:-1])
    cursor.expect(";")
    return Pragma(tuple(strings))


def parse_source_location(cursor: Cursor) -> SourceLocation:
    """``.loc file line column`` with ``function_name`` and ``inlined_at`` (PTX ISA 11.5.5)."""
    cursor.expect(".loc")
    place = (parse_count(cursor), parse_count(cursor), parse_count(cursor))
    name, shift, inlined = "", 0, None
    while cursor.accept(","):
        if cursor.accept("function_name"):
            name = cursor.expect_kind("word", "a label").text
            shift = parse_count(cursor) if cursor.accept("+") else 0
        else:
            cursor.expect("inlined_at", " or 'function_name'")
            inlined = (parse_count(cursor), parse_count(cursor), parse_count(cursor))
    return SourceLocation(*place, name, shift, inlined)


def parse_attributes(cursor: Cursor) -> tuple[Attribute, ...]:
    """Any number of ``.attribute(...)`` (PTX ISA 5.4.8, 11.4)."""
    found: list[Attribute] = []
    while cursor.accept(".attribute"):
        cursor.expect("(")
        while True:
            found.append(_attribute(cursor))
            if not cursor.accept(","):
                break
        cursor.expect(")")
    return tuple(found)


def _attribute(cursor: Cursor) -> Attribute:
    name = cursor.expect_kind("dotted", "an attribute such as .managed").text[1:]
    arguments: list[str] = []
    if cursor.accept("("):
        arguments.append(cursor.expect_kind("integer", "an integer").text)
        while cursor.accept(","):
            arguments.append(cursor.expect_kind("integer", "an integer").text)
        cursor.expect(")")
    return Attribute(name, tuple(arguments))


def parse_parameters(cursor: Cursor) -> tuple[VariableDeclaration, ...]:
    """``( .param .b32 a, .param .b64 b )``."""
    cursor.expect("(")
    found: list[VariableDeclaration] = []
    if cursor.accept(")"):
        return ()
    while True:
        found.append(_declared(cursor, "", cursor.token.offset, single=True))
        if cursor.accept(")"):
            return tuple(found)
        if not cursor.accept(","):
            cursor.fail("',' or ')'")


def parse_variable(cursor: Cursor, linkage: str, offset: int) -> VariableDeclaration:
    """A variable declaration with its ``;``; the linkage directive has been read already."""
    declared = _declared(cursor, linkage, offset, single=False)
    cursor.expect(";")
    return declared


def _declared(cursor: Cursor, linkage: str, offset: int, single: bool) -> VariableDeclaration:
    space, kind, pointer_space = "", "", ""
    vector, alignment, pointer = 1, None, False
    attributes = parse_attributes(cursor)
    while cursor.token.kind == "dotted":
        text = cursor.token.text
        if text == ".align":
            cursor.advance()
            alignment = parse_count(cursor)
        elif text == ".attribute":
            attributes += parse_attributes(cursor)
        elif text == ".ptr":
            cursor.advance()
            pointer = True
        elif text in VECTORS:
            cursor.advance()
            vector = VECTORS[text]
        elif text in SPACES and not space:
            space = cursor.advance().text[1:]
        elif text in SPACES and pointer and not pointer_space:
            pointer_space = cursor.advance().text[1:]
        elif text[1:] in TYPE_BITS and not kind:
            kind = cursor.advance().text[1:]
        else:
            cursor.fail("a state space, a type or a name" if space else "a declaration or directive")
    if not space:
        cursor.fail("a state space such as .global")
    if not kind and space == "tex":
        kind = "texref"
    if not kind:
        cursor.fail("a type such as .b32")
    declarators = [_declarator(cursor, space)]
    while not single and cursor.accept(","):
        declarators.append(_declarator(cursor, space))
    names = tuple(declarators)
    return VariableDeclaration(
        space, kind, names, linkage, attributes, alignment, vector, pointer, pointer_space, offset
    )


def _declarator(cursor: Cursor, space: str) -> Declarator:
    name = cursor.expect_kind("word", "a name").text
    count: int | None = None
    dimensions: list[int | None] = []
    if cursor.accept("<"):
        if cursor.token.kind != "integer":
            cursor.fail("a number of names")
        count = parse_integer(cursor.token.text)
        if space != "reg" and count > _MOST_NUMBERED_VARIABLES:
            cursor.fail(f"at most {_MOST_NUMBERED_VARIABLES} variables")
        cursor.advance()
        cursor.expect(">")
    while cursor.accept("["):
        dimensions.append(None if cursor.at("]") else parse_count(cursor))
        cursor.expect("]")
    initializer = parse_initializer(cursor) if cursor.accept("=") else None
    return Declarator(name, count, tuple(dimensions), initializer)


def parse_function_directive(cursor: Cursor) -> FunctionDirective | Pragma:
    """One directive between a function's parameter list and its body."""
    if cursor.at(".pragma"):
        return parse_pragma(cursor)
    name = cursor.advance().text[1:]
    least, greatest = FUNCTION_DIRECTIVES.get(name, _UNKNOWN_DIRECTIVE)
    arguments: list[str] = []
    while len(arguments) < greatest:
        if arguments and not cursor.accept(","):
            break
        if cursor.token.kind not in ("integer", "string"):
            if arguments or least:
                cursor.fail("an integer")
            break
        arguments.append(cursor.advance().text)
    return FunctionDirective(name, tuple(arguments))


def parse_call_prototype(cursor: Cursor, label: str, offset: int) -> CallPrototype:
    """``.callprototype (returns) _ (parameters) directives;`` (PTX ISA 11.3.3)."""
    cursor.expect(".callprototype")
    returns = parse_parameters(cursor) if cursor.at("(") else None
    name = cursor.expect_kind("word", "'_' or a name").text
    parameters = parse_parameters(cursor) if cursor.at("(") else None
    directives: list[FunctionDirective] = []
    while cursor.token.kind == "dotted":
        directive = parse_function_directive(cursor)
        if isinstance(directive, FunctionDirective):
            directives.append(directive)
    cursor.expect(";")
    return CallPrototype(label, returns, name, parameters, tuple(directives), offset)
