"""PTX modules (ISA 4, 5.4, 11): directives, declarations and function headers.

Statements of function bodies are in :mod:`ptxaudit.frontends.ptx.statements`. The grammar accepts the
directives of a header in any order, as ptxas does; whether they may be combined is not checked.
"""

import re

from ptxaudit.errors import SyntaxFault
from ptxaudit.frontends.ptx import declarations
from ptxaudit.frontends.ptx.expressions import parse_expression
from ptxaudit.frontends.ptx.lexer import Cursor
from ptxaudit.frontends.ptx.statements import BodyParser
from ptxaudit.frontends.ptx.syntax import (
    AddressSize,
    Alias,
    DebugData,
    DwarfLine,
    File,
    Function,
    FunctionDirective,
    Item,
    Label,
    Module,
    Name,
    Operand,
    Pragma,
    Section,
    Target,
    Version,
)
from ptxaudit.source import SourceText

# One number on its line; the look-ahead leaves lists and sums to the token grammar.
_DATA = re.compile(
    r"\s*\.(b8|b16|b32|b64)[ \t]+(0|[1-9][0-9]{0,17})(?=[ \t]*(?://|[\r\n]))[ \t]*(?://[^\n]*)?(?=\s*[.}$])",
    re.ASCII,
)
_LINE = re.compile(r"[^\n]*")
_EXPECTED_ITEM = "a module-level directive"


def parse_ptx(source: SourceText, fast: bool = True) -> Module:
    """The syntax tree of a whole PTX module; ``fast`` false leaves everything to the token grammar.

    Raises :class:`SyntaxFault` at the first place that does not follow the grammar; text without a
    ``.version`` directive at its start is reported as not being PTX.
    """
    cursor = _start(source)
    parser = _ModuleParser(source, cursor, fast)
    items: list[Item] = []
    while cursor.token.kind != "end":
        items.append(parser.item())
    if not any(isinstance(item, Target) for item in items):
        cursor.fail("a .target directive in the module")
    return Module(tuple(items))


def _start(source: SourceText) -> Cursor:
    expected = "'.version' (the text is not PTX)"
    if not source.text.strip():
        raise SyntaxFault(source, 0, "an empty file", "'.version'")
    try:
        cursor = Cursor(source)
    except SyntaxFault as fault:
        raise SyntaxFault(source, fault.offset, fault.found, expected) from None
    if not cursor.at(".version"):
        cursor.fail(expected)
    return cursor


class _ModuleParser:
    def __init__(self, source: SourceText, cursor: Cursor, fast: bool) -> None:
        self.source = source
        self.cursor = cursor
        self.fast = fast
        self.bodies = BodyParser(source, cursor, fast)

    def item(self) -> Item:
        """The next item."""
        cursor = self.cursor
        match cursor.token.text:
            case ".version":
                return self._version()
            case ".target":
                return self._target()
            case ".address_size":
                cursor.advance()
                return AddressSize(declarations.parse_count(cursor))
            case ".file":
                return self._file()
            case ".section":
                return self._section()
            case ".pragma":
                return declarations.parse_pragma(cursor)
            case ".alias":
                return self._alias()
            case ".loc":
                return declarations.parse_source_location(cursor)
            case "@@":
                return self._dwarf_line()
            case _:
                return self._declaration()

    def _version(self) -> Version:
        cursor = self.cursor
        cursor.advance()
        token = cursor.token
        if token.kind != "float" or not re.fullmatch(r"[0-9]+\.[0-9]+", token.text):
            cursor.fail("a version number such as 8.8")
        cursor.advance()
        major, minor = token.text.split(".")
        return Version(int(major), int(minor))

    def _target(self) -> Target:
        cursor = self.cursor
        offset = cursor.advance().offset
        options = [cursor.expect_kind("word", "a target such as sm_90a").text]
        while cursor.accept(","):
            options.append(cursor.expect_kind("word", "a target option").text)
        return Target(tuple(options), offset)

    def _file(self) -> File:
        cursor = self.cursor
        cursor.advance()
        index = declarations.parse_count(cursor)
        name = cursor.expect_kind("string", "a quoted file name").text[1:-1]
        numbers: list[int] = []
        while len(numbers) < 2 and cursor.accept(","):
            numbers.append(declarations.parse_count(cursor))
        return File(index, name, *numbers)

    def _alias(self) -> Alias:
        cursor = self.cursor
        cursor.advance()
        name = cursor.expect_kind("word", "a function name").text
        cursor.expect(",")
        aliasee = cursor.expect_kind("word", "a function name").text
        cursor.expect(";")
        return Alias(name, aliasee)

    def _dwarf_line(self) -> DwarfLine:
        start = self.cursor.token.offset
        match = _LINE.match(self.source.text, start)
        end = match.end() if match else start
        self.cursor.seek(end)
        return DwarfLine(" ".join(self.source.text[start:end].split()))

    def _section(self) -> Section:
        cursor = self.cursor
        cursor.advance()
        name = cursor.expect_kind("dotted", "a section name").text
        items: list[DebugData | Label] = []
        opening = cursor.token
        if not cursor.at("{"):
            cursor.fail("'{'")
        position = opening.end
        while True:
            if self.fast:
                position = self._plain_data(items, position)
            cursor.seek(position)
            if cursor.accept("}"):
                return Section(name, tuple(items))
            items.append(self._section_item())
            position = cursor.token.offset

    def _plain_data(self, items: list[DebugData | Label], position: int) -> int:
        """The numbers that make up most of a section, read without tokens."""
        text = self.source.text
        while (match := _DATA.match(text, position)) is not None:
            items.append(DebugData(match[1], (self.bodies.literal(match[2]),)))
            position = match.end()
        return position

    def _section_item(self) -> DebugData | Label:
        cursor = self.cursor
        token = cursor.token
        if token.kind == "word":
            cursor.advance()
            cursor.expect(":")
            return Label(token.text, token.offset)
        if token.text not in (".b8", ".b16", ".b32", ".b64"):
            cursor.fail("section data (.b8, .b16, .b32 or .b64), a label or '}'")
        cursor.advance()
        values = [self._section_value()]
        while cursor.accept(","):
            values.append(self._section_value())
        return DebugData(token.text[1:], tuple(values))

    def _section_value(self) -> Operand:
        if self.cursor.token.kind == "dotted":
            return Name(self.cursor.advance().text)
        return parse_expression(self.cursor)

    def _declaration(self) -> Item:
        cursor = self.cursor
        if cursor.token.kind != "dotted":
            cursor.fail(_EXPECTED_ITEM)
        offset = cursor.token.offset
        linkage = ""
        if cursor.token.text in declarations.LINKAGES:
            linkage = cursor.advance().text[1:]
        if cursor.token.text in (".entry", ".func"):
            return self._function(linkage, offset)
        return declarations.parse_variable(cursor, linkage, offset)

    def _function(self, linkage: str, offset: int) -> Function:
        cursor = self.cursor
        kind = cursor.advance().text[1:]
        attributes = declarations.parse_attributes(cursor)
        returns = declarations.parse_parameters(cursor) if cursor.at("(") else None
        name = cursor.expect_kind("word", "a function name").text
        parameters = declarations.parse_parameters(cursor) if cursor.at("(") else None
        directives: list[FunctionDirective | Pragma] = []
        while cursor.token.kind == "dotted":
            directives.append(declarations.parse_function_directive(cursor))
        body = None
        if cursor.at("{"):
            body = self.bodies.parse_body()
        elif not cursor.accept(";"):
            cursor.fail("a function directive, '{' or ';'")
        return Function(kind, name, linkage, attributes, returns, parameters, tuple(directives), body, offset)
