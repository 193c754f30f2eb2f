"""Words that messages and reports of every layer are made of."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 kernel``, ``2 kernels``; ``plural`` where that is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
