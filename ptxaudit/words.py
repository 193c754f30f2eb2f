"""Words that messages and reports of every layer are made of."""

import re

LONGEST_LINE = 2000


def clipped(line: str) -> str:
    """A line of code as reports show it: of one that nobody reads to its end, the beginning."""
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} \N{HORIZONTAL ELLIPSIS}"


# Five or more in braces: the registers of a matrix instruction, of which there may be 256.
_LONG_LIST = re.compile(r"\{\s*([^{},]+?)\s*,\s*([^{},]+?)\s*,(?:[^{},]+,){2,}\s*([^{},]+?)\s*\}")


def brief(code: str) -> str:
    """Code as prose shows it: of a long list of registers the first two and the last."""
    return _LONG_LIST.sub(r"{\1, \2, ... \3}", code)


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 kernel``, ``2 kernels``; ``plural`` where that is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
