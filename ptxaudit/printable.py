"""Text that came from an input, made safe to print: what a stranger named cannot break a line or a terminal.

Names in archives, symbol tables and PTX hold any bytes. A line feed in one would forge a second line of a
report, an escape sequence would steer the terminal, and a right-to-left override would show another name.
A line of a CI job's log can also be a command to the job's runner.
"""

import re

# GitHub's runner reads "##[" anywhere in a line, Azure's "##vso[" and TeamCity's "##teamcity[".
_RUNNER_COMMAND = re.compile(r"##(?=\w*\[)")


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


def log_line(text: str) -> str:
    """A line that may go to a terminal and to the log of a CI job: ``text`` with its tabs, else printable.

    What a runner would take for a command is spelt so that it is none: two colons that begin the line
    (GitHub ignores blanks before them), ``##[`` anywhere. The spelling is also that of a JSON string.
    """
    line = text if text.isprintable() else "\t".join(map(printable, text.split("\t")))
    if "##" in line:
        line = _RUNNER_COMMAND.sub(r"#\\u0023", line)
    if line.lstrip().startswith("::"):
        line = line.replace("::", "\\u003a:", 1)
    return line


def log_lines(text: str) -> str:
    """Several lines, each as :func:`log_line` has it."""
    return "\n".join(map(log_line, text.split("\n")))
