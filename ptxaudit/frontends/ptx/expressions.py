"""Operands and constant expressions: the grammar over tokens, and a cache for operands that repeat.

One operand's text is parsed once per file (:class:`OperandCache`); equal texts share one node, so later
stages may key their own caches by identity.
"""

import re

from ptxaudit.errors import SyntaxFault
from ptxaudit.frontends.ptx.lexer import IDENTIFIER, SPACE, Cursor
from ptxaudit.frontends.ptx.syntax import (
    Address,
    Applied,
    ArgumentList,
    Assignment,
    Binary,
    Cast,
    Conditional,
    Literal,
    Name,
    Operand,
    Pair,
    Unary,
    VectorList,
)
from ptxaudit.source import SourceText

MAXIMUM_DEPTH = 64

# A float without digits before its point; elsewhere that spelling is a modifier such as ``.1x``.
_FRACTION = re.compile(r"\.[0-9]+(?:[eE][+-]?[0-9]+)?(?![\w:])", re.ASCII)

# PTX ISA 4.5.5, from loosest to tightest; all associate to the left.
PRECEDENCE = {
    operator: level
    for level, operators in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"), start=1
    )
    for operator in operators.split()
}


def parse_operand(cursor: Cursor, depth: int = 0, call: bool = False) -> Operand:
    """One operand of an instruction; ``call`` makes parentheses an argument list (PTX ISA 9.7.12.5)."""
    token = cursor.token
    if token.text == "[":
        return _address(cursor, depth)
    if token.text == "{":
        return _vector(cursor, depth)
    if call and token.text == "(":
        cursor.advance()
        return ArgumentList(_list(cursor, depth, ")"))
    word = token.kind == "word"
    first = parse_expression(cursor, depth, pairs=word)
    if word and isinstance(first, Name) and cursor.accept("|"):
        return Pair(first, _pair_member(cursor))
    return first


def _pair_member(cursor: Cursor) -> Operand:
    if cursor.accept("!"):
        return Unary("!", _name(cursor))
    return _name(cursor)


def _name(cursor: Cursor) -> Name:
    word = cursor.expect_kind("word", "a name")
    component = cursor.token
    if component.kind == "dotted" and component.offset == word.end and ":" not in component.text:
        return Name(word.text + cursor.advance().text)
    return Name(word.text)


def _address(cursor: Cursor, depth: int) -> Address:
    cursor.expect("[")
    parts = _list(cursor, depth, "]")
    if not parts:
        cursor.fail("an address")
    suffix = cursor.advance().text if cursor.token.kind == "dotted" else ""
    return Address(parts, suffix)


def _vector(cursor: Cursor, depth: int) -> VectorList:
    cursor.expect("{")
    return VectorList(_list(cursor, depth, "}"))


def _list(cursor: Cursor, depth: int, closing: str) -> tuple[Operand, ...]:
    _check_depth(cursor, depth)
    elements: list[Operand] = []
    if cursor.accept(closing):
        return ()
    while True:
        elements.append(parse_operand(cursor, depth + 1))
        if cursor.accept(closing):
            return tuple(elements)
        if not cursor.accept(","):
            cursor.fail(f"',' or '{closing}'")


def _check_depth(cursor: Cursor, depth: int) -> None:
    if depth > MAXIMUM_DEPTH:
        cursor.fail(f"no more than {MAXIMUM_DEPTH} levels of nesting")


def parse_expression(cursor: Cursor, depth: int = 0, pairs: bool = False) -> Operand:
    """A constant expression or a sum with a name; ``pairs`` leaves ``|`` after a single name alone."""
    _check_depth(cursor, depth)
    if pairs:
        first = _unary(cursor, depth)
        if isinstance(first, Name) and cursor.at("|"):
            return first
        left = _binary(cursor, depth, 1, first)
    else:
        left = _binary(cursor, depth, 1, _unary(cursor, depth))
    if not cursor.accept("?"):
        return left
    second = parse_expression(cursor, depth + 1)
    cursor.expect(":")
    return Conditional(left, second, parse_expression(cursor, depth + 1))


def _binary(cursor: Cursor, depth: int, minimum: int, left: Operand) -> Operand:
    while True:
        token = cursor.token
        level = PRECEDENCE.get(token.text, 0)
        if level < minimum or token.kind != "punctuation":
            return left
        cursor.advance()
        right = _unary(cursor, depth)
        following = PRECEDENCE.get(cursor.token.text, 0)
        if following > level:
            right = _binary(cursor, depth + 1, level + 1, right)
        left = Binary(token.text, left, right)


def _unary(cursor: Cursor, depth: int) -> Operand:
    _check_depth(cursor, depth)
    token = cursor.token
    if token.kind == "word":
        return _applied(cursor, depth, _name(cursor))
    if token.kind in ("integer", "float"):
        cursor.advance()
        return _applied(cursor, depth, Literal(token.text))
    if token.kind == "punctuation" and token.text in "-+!~":
        cursor.advance()
        return Unary(token.text, _unary(cursor, depth + 1))
    if token.text == "(":
        return _parenthesised(cursor, depth)
    fraction = _FRACTION.match(cursor.text, token.offset)
    if fraction is not None:
        cursor.seek(fraction.end())
        return Literal(fraction.group())
    cursor.fail("an operand")


def _applied(cursor: Cursor, depth: int, function: Name | Literal) -> Operand:
    if not cursor.accept("("):
        return function
    argument = parse_expression(cursor, depth + 1)
    cursor.expect(")")
    return Applied(function, argument)


def _parenthesised(cursor: Cursor, depth: int) -> Operand:
    cursor.expect("(")
    if cursor.token.text in (".s64", ".u64"):
        kind = cursor.advance().text[1:]
        cursor.expect(")")
        return Cast(kind, _unary(cursor, depth + 1))
    inner = parse_expression(cursor, depth + 1)
    cursor.expect(")")
    return inner


def at_fraction(cursor: Cursor) -> bool:
    """Whether a number such as ``.5`` comes next."""
    return _FRACTION.match(cursor.text, cursor.token.offset) is not None


def parse_initializer(cursor: Cursor, depth: int = 0) -> Operand:
    """The right side of ``=`` in a declaration (PTX ISA 5.4.4): an expression or nested braces."""
    _check_depth(cursor, depth)
    if not cursor.accept("{"):
        value = parse_expression(cursor, depth)
        if isinstance(value, Name) and cursor.accept("="):
            return Assignment(value.text, parse_expression(cursor, depth))
        return value
    elements: list[Operand] = []
    while not elements or cursor.accept(","):
        elements.append(parse_initializer(cursor, depth + 1))
    if not cursor.accept("}"):
        cursor.fail("',' or '}'")
    return VectorList(tuple(elements))


_NAME_ONLY = re.compile(rf"{IDENTIFIER}(?:\.\w+)?\Z", re.ASCII)
_NAMES_ONLY = re.compile(r"\{[^\[({|]*\}\Z")
_PIECES = re.compile(r"(?:[^,\[\]{}()]+|\[[^\[\]]*\]|\{[^{}]*\})+")
_BRACKETS = re.compile(r"[\[{(]")


class _NotPlainError(Exception):
    """Text that is not one plain operand."""


class OperandCache:
    """Operands by their text."""

    def __init__(self) -> None:
        self._known: dict[str, Operand] = {}

    def operands(self, text: str) -> tuple[Operand, ...] | None:
        """All operands of a statement without comments; ``None`` where the token grammar has to judge."""
        try:
            if _BRACKETS.search(text) is None:
                return self._listed(text)
            pieces = _PIECES.findall(text)
            return self._all(pieces) if ",".join(pieces) == text else None
        except _NotPlainError:
            return None

    def _listed(self, text: str) -> tuple[Operand, ...]:
        """Operands between commas, without brackets; compilers write a blank after each comma."""
        try:
            return self._all(text.split(", "))
        except _NotPlainError:
            return self._all(text.split(","))

    def _all(self, pieces: list[str]) -> tuple[Operand, ...]:
        known = self._known.get
        learn = self._learn
        return tuple([known(piece) or learn(piece) for piece in pieces])

    def _learn(self, piece: str) -> Operand:
        text = piece.strip(SPACE)
        operand = self._known.get(text)
        if operand is None:
            operand = self._known[text] = self._parse(text)
        self._known[piece] = operand
        return operand

    def _parse(self, text: str) -> Operand:
        if _NAME_ONLY.match(text):
            return Name(text)
        if _NAMES_ONLY.match(text):
            try:
                return VectorList(self._listed(text[1:-1]))
            except _NotPlainError:
                pass
        elif "," in text and _BRACKETS.search(text) is None:
            raise _NotPlainError
        try:
            cursor = Cursor(SourceText("", text))
            operand = parse_operand(cursor)
        except SyntaxFault:
            raise _NotPlainError from None
        if cursor.token.kind != "end":
            raise _NotPlainError
        return operand
