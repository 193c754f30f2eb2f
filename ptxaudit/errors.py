"""The exception tree: everything that can go wrong with an input, a tool or a rule, in one line each."""

from typing import Self

from ptxaudit.source import SourceText

INTERNAL_ERROR = "internal error: "


class PtxauditError(Exception):
    """Base of every error that ptxaudit raises on purpose; ``str(error)`` is the line a user reads."""


def system_reason(error: OSError) -> str:
    """What the operating system says, in lower case as the rest of a line is."""
    return (error.strerror or str(error)).lower()


def internal_error(error: Exception) -> str:
    """A fault of ptxaudit itself in one line."""
    text = " ".join(str(error).split())
    return f"{INTERNAL_ERROR}{type(error).__name__}{': ' if text else ''}{text}"


class Stopped(BaseException):
    """A signal told the program to end: what is done so far is reported, temporary files and tools go."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class UsageError(PtxauditError):
    """The command line, an option or a configuration value is wrong (exit code 2)."""


class InputError(PtxauditError):
    """An input cannot be read or is not what it claims to be (exit code 3); other inputs go on."""


class SyntaxFault(InputError):
    """Text that does not follow the grammar; knows its place and draws a caret.

    ``found`` and ``expected`` are short phrases; ``offset`` is a character offset into ``source``.
    """

    def __init__(self, source: SourceText, offset: int, found: str, expected: str) -> None:
        self.source = source
        self.offset = offset
        self.found = found
        self.expected = expected
        self.line, self.column = source.line_column(min(offset, len(source.text)))
        super().__init__(f"{source.name}:{self.line}:{self.column}: found {found}, expected {expected}")

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        """Exceptions of several arguments do not come through a pickle of their own accord."""
        return type(self), (self.source, self.offset, self.found, self.expected)

    def excerpt(self) -> str:
        """The offending line with a caret under the column (tabs kept, long lines cut around it)."""
        text = self.source.line_text(self.line)
        start = max(0, self.column - 80)
        shown = text[start : start + 160]
        before = shown[: self.column - 1 - start]
        padding = "".join("\t" if character == "\t" else " " for character in before)
        return f"{shown}\n{padding}^"


class BinaryFault(InputError):
    """A binary container that is malformed; ``offset`` is a byte offset in the file, if one is known."""

    def __init__(self, file: str, offset: int | None, found: str, expected: str) -> None:
        self.file = file
        self.offset = offset
        self.found = found
        self.expected = expected
        place = file if offset is None else f"{file}+{offset:#x}"
        super().__init__(f"{place}: found {found}, expected {expected}")

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        """As for :class:`SyntaxFault`."""
        return type(self), (self.file, self.offset, self.found, self.expected)


class UnsupportedArchitecture(InputError):
    """A kernel for an architecture whose rules ptxaudit does not know; it is never audited by another's.

    ``is_older`` says that it is one from before those that are known.
    """

    def __init__(self, message: str, is_older: bool = False) -> None:
        self.is_older = is_older
        super().__init__(message)


class ToolError(InputError):
    """A disassembler or assembler is missing, too old, crashed or printed something unreadable."""


class PatternError(PtxauditError):
    """A pattern file does not follow its schema (a fault of the installation, not of an input)."""
