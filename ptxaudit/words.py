"""Words that messages and reports of every layer are made of."""


LONGEST_LINE = 2000


def clipped(line: str) -> str:
    """A line of code as reports show it: of one that nobody reads to its end, the beginning."""
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} \N{HORIZONTAL ELLIPSIS}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 kernel``, ``2 kernels``; ``plural`` where that is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
