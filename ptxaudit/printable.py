"""Text that came from an input, made safe to print: what a stranger named cannot break a line or a terminal.

Names in archives, symbol tables and PTX hold any bytes. A line feed in one would forge a second line of a
report, an escape sequence would steer the terminal, and a right-to-left override would show another name.
"""


def printable(text: str) -> str:
    """``text`` with every character that does not print as itself written as a Python escape (``\\n``).

    Spaces stay; so does everything that :meth:`str.isprintable` accepts. Undecodable bytes that Python keeps
    as lone surrogates become ``\\udc..``, so the result can be encoded.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )
