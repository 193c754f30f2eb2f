"""Tokens of PTX (ISA 4): a lazy cursor over the text that the grammar asks for one token at a time."""

import re
from typing import NamedTuple, NoReturn

from ptxaudit.errors import SyntaxFault
from ptxaudit.source import SourceText

SPACE = " \t\r\n\f\v"
IDENTIFIER = r"(?:[A-Za-z][\w$]*|[_$%][\w$]+|_)"
DOTTED = r"\.\w+(?:::\w+)*"
INTEGER = r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?"

_TRIVIA = re.compile(rf"(?:[{SPACE}]+|//[^\n]*|/\*(?s:.*?)\*/)*+", re.ASCII)
_TOKEN = re.compile(
    rf"""
    (?P<float>0[fF][0-9a-fA-F]{{8}}(?!\w)|0[dD][0-9a-fA-F]{{16}}(?!\w)
        |[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?!\w))
  | (?P<integer>{INTEGER}(?!\w))
  | (?P<word>{IDENTIFIER})
  | (?P<dotted>{DOTTED})
  | (?P<string>"[^"\n]*")
  | (?P<punctuation><<|>>|<=|>=|==|!=|&&|\|\||@@|/(?!\*)|[-+*%~!<>&^|?:=,;@()\[\]{{}}])
    """,
    re.VERBOSE | re.ASCII,
)

_LONGEST_INTEGER = 67  # 0b, 64 digits, U


class Token(NamedTuple):
    """A token: ``kind`` is float, integer, word, dotted, string, punctuation or end."""

    kind: str
    text: str
    offset: int

    @property
    def end(self) -> int:
        """The offset just past it."""
        return self.offset + len(self.text)


def describe(token: Token) -> str:
    """A token as the words of an error message."""
    if token.kind == "end":
        return "end of file"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return text if token.kind == "string" else f"'{text}'"


class Cursor:
    """A position in the text with one token of look-ahead."""

    __slots__ = ("source", "text", "token")

    def __init__(self, source: SourceText, offset: int = 0) -> None:
        self.source = source
        self.text = source.text
        self.token = self._read(offset)

    def seek(self, offset: int) -> None:
        """Continue with the token at or after ``offset``."""
        self.token = self._read(offset)

    def _read(self, offset: int) -> Token:
        text = self.text
        skipped = _TRIVIA.match(text, offset)
        start = skipped.end() if skipped else offset
        match = _TOKEN.match(text, start)
        if match is not None and match.lastgroup is not None:
            if match.lastgroup == "integer" and match.end() - start > _LONGEST_INTEGER:
                raise SyntaxFault(self.source, start, "a number of more than 64 bits", "a 64-bit number")
            return Token(match.lastgroup, match.group(), start)
        if start >= len(text):
            return Token("end", "", len(text))
        if text.startswith("/*", start):
            raise SyntaxFault(self.source, start, "an unterminated comment", "'*/'")
        if text[start] == '"':
            raise SyntaxFault(self.source, start, "an unterminated string", "'\"' on the same line")
        if text[start].isdigit() and text[start].isascii():
            word = re.compile(r"[\w.]+").match(text, start)
            found = word.group() if word else text[start]
            raise SyntaxFault(self.source, start, f"malformed number '{found[:40]}'", "a number")
        raise SyntaxFault(self.source, start, f"character {text[start]!a}", "PTX text")

    def advance(self) -> Token:
        """Take the current token and read the next."""
        token = self.token
        if token.kind != "end":
            self.token = self._read(token.offset + len(token.text))
        return token

    def at(self, text: str) -> bool:
        """Whether the current token is this one (never true of a string)."""
        return self.token.text == text

    def accept(self, text: str) -> bool:
        """Take the current token if it is this one."""
        if self.token.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str, where: str = "") -> Token:
        """Take this token, or fail saying that it was expected."""
        if self.token.text != text:
            self.fail(f"'{text}'{where}")
        return self.advance()

    def expect_kind(self, kind: str, expected: str) -> Token:
        """Take a token of this kind, or fail saying that ``expected`` was expected."""
        if self.token.kind != kind:
            self.fail(expected)
        return self.advance()

    def fail(self, expected: str) -> NoReturn:
        """Raise the fault for the current token."""
        raise SyntaxFault(self.source, self.token.offset, describe(self.token), expected)
