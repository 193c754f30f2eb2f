"""What an audit says of its progress while it runs."""

from collections.abc import Callable
from dataclasses import dataclass


def _nothing(name: str) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Called with the name of each image: when it is the next that is waited for, and when it is done.

    Both come in the order of the images, however many processes work on them.
    """

    started: Callable[[str], None] = _nothing
    finished: Callable[[str], None] = _nothing


SILENT = Progress()
