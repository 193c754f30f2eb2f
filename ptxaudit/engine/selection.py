"""Which kernels are asked for: by architecture and by name, decided as early as the evidence allows."""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from difflib import SequenceMatcher

from ptxaudit.arch import Architecture
from ptxaudit.frontends.demangle import demangle

_NEAR_NAMES = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """Functions whose mangled or demangled name ``kernel`` finds, built for ``architecture``; ``None``: all.

    An architecture without a suffix also takes the suffixed targets of the same number.
    """

    kernel: re.Pattern[str] | None = None
    architecture: Architecture | None = None

    def takes_architecture(self, actual: Architecture) -> bool:
        """Whether what is built for ``actual`` is asked for."""
        asked = self.architecture
        return asked is None or actual == asked or (actual.number == asked.number and not asked.suffix)

    def takes_name(self, name: str) -> bool:
        """Whether a function of this (mangled) name is asked for."""
        if self.kernel is None or self.kernel.search(name):
            return True
        readable = demangle(name)
        return readable != name and self.kernel.search(readable) is not None

    @property
    def name_filter(self) -> Callable[[str], bool] | None:
        """:meth:`takes_name` for a front end; ``None`` where every name is taken."""
        return None if self.kernel is None else self.takes_name

    def no_match(self, offered: Mapping[str, AbstractSet[str]]) -> str:
        """One line on a selection that takes none of the functions that there are.

        ``offered`` are their (mangled) names with the architectures that each is there for.
        """
        message = f"found no function that matches {self}, expected at least one"
        named = [architectures for name, architectures in offered.items() if self.takes_name(name)]
        if named:
            return f"{message}; there is one for {', '.join(sorted(set().union(*named) - {''}))}"
        if self.kernel is None or not offered:
            return message
        near = sorted(offered, key=lambda name: (-_likeness(self.kernel, name), len(name), name))
        shown = ", ".join(demangle(name) for name in near[:_NEAR_NAMES])
        rest = len(near) - _NEAR_NAMES
        return f"{message}; there is {shown}{f' and {rest} more' if rest > 0 else ''}"

    def __str__(self) -> str:
        """The options that say the same, for a message."""
        asked = [] if self.kernel is None else [f"--kernel {self.kernel.pattern}"]
        asked += [] if self.architecture is None else [f"--arch {self.architecture.name}"]
        return " and ".join(asked)


def _likeness(pattern: re.Pattern[str] | None, name: str) -> int:
    """The length of the longest text that an expression and a name share."""
    text = "" if pattern is None else pattern.pattern.lower()
    matcher = SequenceMatcher(None, text, name.lower(), autojunk=False)
    return matcher.find_longest_match().size
