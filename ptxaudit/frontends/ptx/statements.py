"""Function bodies: a fast path over the text for the usual statements, and the token grammar for the rest.

The fast path takes a statement only where the token grammar gives the same node; anything else (comments
inside a statement, parentheses, declarations, errors) is left to the token grammar at the same offset. So
both accept the same language, which a property test holds; :class:`BodyParser` can run with either alone.
"""

import re

from ptxaudit.frontends.ptx import declarations
from ptxaudit.frontends.ptx.construct import make_statement
from ptxaudit.frontends.ptx.expressions import MAXIMUM_DEPTH, OperandCache, at_fraction, parse_operand
from ptxaudit.frontends.ptx.lexer import DOTTED, IDENTIFIER, SPACE, Cursor
from ptxaudit.frontends.ptx.syntax import (
    BranchTargets,
    CallPrototype,
    CallTargets,
    Declarator,
    Guard,
    Instruction,
    Label,
    Literal,
    Operand,
    Scope,
    SourceLocation,
    Statement,
    VariableDeclaration,
)
from ptxaudit.source import SourceText

_OPCODE = re.compile(r"[a-z][a-z0-9_]*\Z")

_NUMBER = "(?:0|[1-9][0-9]{0,17}+)"

# Groups: 1 guard sign, 2 guard, 3 opcode, 4 operands; 5 label; 6 .loc numbers; 7 brace; 8 .reg type, 9 name.
_FAST = re.compile(
    rf"""
    (?:[ \t\r\n]+|//[^\n]*)*+
    (?:
      (?:@(!?)({IDENTIFIER})[ \t]+)?
      ([a-z][a-z0-9_]*+(?:{DOTTED})*+) (?:[ \t]+([^;"/]*))? ;
    | ({IDENTIFIER})[ \t]*:
    | \.loc[ \t]+({_NUMBER}[ \t]+{_NUMBER}[ \t]+{_NUMBER})[ \t]*(?=[\r\n])(?!\s*[,/])
    | ([{{}}])
    | \.reg[ \t]+\.(\w+)[ \t]+({IDENTIFIER})[ \t]*;
    )
    """,
    re.VERBOSE | re.ASCII,
)
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*+", re.ASCII)


class BodyParser:
    """Parses the bodies of one module; what repeats is shared between them."""

    def __init__(self, source: SourceText, cursor: Cursor, fast: bool = True) -> None:
        self.source = source
        self.cursor = cursor
        self.fast = fast
        self._operands = OperandCache()
        self._guards: dict[tuple[str, str], Guard] = {}
        self._places: dict[str, SourceLocation] = {}
        self._literals: dict[str, Literal] = {}

    def literal(self, text: str) -> Literal:
        """A shared literal node."""
        found = self._literals.get(text)
        if found is None:
            found = self._literals[text] = Literal(text)
        return found

    def parse_body(self) -> Scope:
        """The ``{ ... }`` at the cursor, nested scopes included; leaves the cursor after the ``}``."""
        opening = self.cursor.token
        if not self.cursor.at("{"):
            self.cursor.fail("'{'")
        open_scopes: list[tuple[int, list[Statement]]] = [(opening.offset, [])]
        position = opening.end
        while open_scopes:
            if self.fast:
                position = self._fast_statements(open_scopes, position)
            position = self._one_statement(open_scopes, position)
        return self._finished

    def _one_statement(self, open_scopes: list[tuple[int, list[Statement]]], position: int) -> int:
        """One statement or brace by the token grammar; the offset where the next may start."""
        cursor = self.cursor
        cursor.seek(position)
        token = cursor.token
        if token.text == "{":
            if len(open_scopes) > MAXIMUM_DEPTH:
                cursor.fail(f"no more than {MAXIMUM_DEPTH} levels of nesting")
            open_scopes.append((token.offset, []))
            return token.end
        if token.text == "}":
            offset, statements = open_scopes.pop()
            scope = Scope(tuple(statements), offset, token.offset)
            if open_scopes:
                open_scopes[-1][1].append(scope)
                return token.end
            self._finished = scope
            cursor.advance()
            return token.end
        if token.kind == "end":
            cursor.fail("'}' at the end of the function")
        self._statement(open_scopes[-1][1])
        return cursor.token.offset

    def _fast_statements(self, open_scopes: list[tuple[int, list[Statement]]], position: int) -> int:
        """Statements of the usual shape, up to the first that is not or the end of the function."""
        text = self.source.text
        match_statement = _FAST.match
        operands_of = self._operands.operands
        guards = self._guards
        append = open_scopes[-1][1].append
        nothing: tuple[Operand, ...] = ()
        while (match := match_statement(text, position)) is not None:
            sign, guarded, opcode, written, label, place, brace, kind, name = match.groups()
            if opcode is not None:
                operands = operands_of(written) if written and written.strip(SPACE) else nothing
                if operands is None:
                    return position
                guard = None
                start = match.start(3)
                if guarded is not None:
                    key = (sign, guarded)
                    guard = guards.get(key)
                    if guard is None:
                        guard = guards[key] = Guard(guarded, sign == "!")
                    start = match.start(1) - 1
                position = match.end()
                append(make_statement(guard, opcode, operands, start, position - 1))
                continue
            if place is not None:
                append(self._place(place))
            elif label is not None:
                end = match.end()
                if label == "_" or text.startswith(":", end) or _directive_follows(text, end):
                    return position
                append(Label(label, match.start(5)))
            elif brace == "{":
                if len(open_scopes) > MAXIMUM_DEPTH:
                    return position
                open_scopes.append((match.start(7), []))
                append = open_scopes[-1][1].append
            elif brace == "}":
                if len(open_scopes) == 1:
                    return position
                offset, inner = open_scopes.pop()
                append = open_scopes[-1][1].append
                append(Scope(tuple(inner), offset, match.start(7)))
            else:
                if kind not in declarations.TYPE_BITS:
                    return position
                start = text.rindex(".reg", position, match.start(8))
                append(VariableDeclaration("reg", kind, (Declarator(name),), offset=start))
            position = match.end()
        return position

    def _place(self, text: str) -> SourceLocation:
        found = self._places.get(text)
        if found is None:
            file, line, column = (declarations.parse_integer(part) for part in text.split())
            found = self._places[text] = SourceLocation(file, line, column)
        return found

    def _statement(self, statements: list[Statement]) -> None:
        """One statement that is no brace, by the token grammar."""
        cursor = self.cursor
        token = cursor.token
        if token.kind == "word":
            cursor.advance()
            if cursor.at(":"):
                cursor.advance()
                self._labelled(statements, token.text, token.offset)
            else:
                statements.append(self._instruction(None, token.text, token.offset, token.offset))
        elif token.text == "@":
            statements.append(self._guarded())
        elif token.text == ".loc":
            statements.append(declarations.parse_source_location(cursor))
        elif token.text == ".pragma":
            statements.append(declarations.parse_pragma(cursor))
        elif token.text in (".branchtargets", ".calltargets", ".callprototype"):
            cursor.fail(f"a label before {token.text}")
        elif token.kind == "dotted":
            linkage = cursor.advance().text[1:] if token.text in declarations.LINKAGES else ""
            statements.append(declarations.parse_variable(cursor, linkage, token.offset))
        else:
            cursor.fail("a statement")

    def _labelled(self, statements: list[Statement], name: str, offset: int) -> None:
        cursor = self.cursor
        if name == "_":
            cursor.fail("a label other than '_'")
        if cursor.at(".branchtargets"):
            statements.append(BranchTargets(name, self._names(), offset))
        elif cursor.at(".calltargets"):
            statements.append(CallTargets(name, self._names(), offset))
        elif cursor.at(".callprototype"):
            prototype: CallPrototype = declarations.parse_call_prototype(cursor, name, offset)
            statements.append(prototype)
        else:
            statements.append(Label(name, offset))

    def _names(self) -> tuple[str, ...]:
        cursor = self.cursor
        cursor.advance()
        names = [cursor.expect_kind("word", "a name").text]
        while cursor.accept(","):
            names.append(cursor.expect_kind("word", "a name").text)
        cursor.expect(";")
        return tuple(names)

    def _guarded(self) -> Instruction:
        cursor = self.cursor
        offset = cursor.advance().offset
        negated = cursor.accept("!")
        name = cursor.expect_kind("word", "a predicate").text
        opcode = cursor.expect_kind("word", "an instruction")
        guard = Guard(name, negated)
        return self._instruction(guard, opcode.text, opcode.offset, offset)

    def _instruction(self, guard: Guard | None, opcode: str, place: int, offset: int) -> Instruction:
        cursor = self.cursor
        if _OPCODE.match(opcode) is None:
            cursor.seek(place)
            cursor.fail("an instruction")
        base = opcode
        end = place + len(opcode)
        # Modifiers may stand apart from the opcode, but then a number such as .5 is an operand.
        while cursor.token.kind == "dotted" and (cursor.token.offset == end or not at_fraction(cursor)):
            modifier = cursor.advance()
            opcode += modifier.text
            end = modifier.end
        operands: list[Operand] = []
        if not cursor.at(";"):
            operands.append(parse_operand(cursor, call=base == "call"))
            while cursor.accept(","):
                operands.append(parse_operand(cursor, call=base == "call"))
        if not cursor.at(";"):
            cursor.fail("',' or ';'")
        return Instruction(guard, opcode, tuple(operands), offset, cursor.advance().offset)


def _directive_follows(text: str, position: int) -> bool:
    """Whether a dotted directive that a label may name comes next, or a comment that could hide one."""
    blank = _BLANK.match(text, position)
    start = blank.end() if blank else position
    return text.startswith((".branchtargets", ".calltargets", ".callprototype", "/*"), start)
