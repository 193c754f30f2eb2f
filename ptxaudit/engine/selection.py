"""Which kernels are asked for: by architecture and by name, decided as early as the evidence allows."""

import re
from dataclasses import dataclass

from ptxaudit.arch import Architecture
from ptxaudit.frontends.demangle import demangle


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

    def __str__(self) -> str:
        """The options that say the same, for a message."""
        asked = [] if self.kernel is None else [f"--kernel {self.kernel.pattern}"]
        asked += [] if self.architecture is None else [f"--arch {self.architecture.name}"]
        return " and ".join(asked)
