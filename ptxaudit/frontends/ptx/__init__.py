"""The PTX front end: text to syntax tree, back to text, and lowered to the intermediate representation."""

from ptxaudit.errors import InputError
from ptxaudit.frontends.collection import collection_paused
from ptxaudit.frontends.ptx.lower import lower_module
from ptxaudit.frontends.ptx.parser import parse_ptx
from ptxaudit.frontends.ptx.printer import print_ptx
from ptxaudit.ir.function import Module
from ptxaudit.source import SourceText
from ptxaudit.stopwatch import STOPWATCH, Stage

__all__ = ["load_ptx", "parse_ptx", "print_ptx"]


@STOPWATCH.stage(Stage.FRONT_END)
def load_ptx(source: SourceText) -> Module:
    """A PTX text as an IR module; ``sha256`` is left empty.

    Raises :class:`ptxaudit.errors.SyntaxFault` or :class:`ptxaudit.errors.UnsupportedArchitecture`.
    """
    with collection_paused():
        try:
            return lower_module(parse_ptx(source), source)
        except RecursionError as error:  # brackets are counted, and a sum of thousands of terms is as deep
            raise InputError(f"{source.name}: found an expression of too many terms") from error
