"""Disassembling the functions of a cubin apart, where the disassembler fails on the whole of it.

The sections are halved until those at fault stand alone: with one bad function in a thousand that takes
twenty runs. A disassembler that fails on one function after the other is at fault itself.
"""

import time

from ptxaudit.arch import Architecture
from ptxaudit.errors import ToolError
from ptxaudit.frontends.demangle import demangle
from ptxaudit.frontends.sass.disassemble import MOST_AT_ONCE, Section, disassembled
from ptxaudit.frontends.sass.sections import Symbol
from ptxaudit.ir.function import UnreadFunction
from ptxaudit.limits import DISTURBANCES, limits

_MOST_FAILURES_IN_A_ROW = 8
# So many runs of the longest may be spent on finding the functions at fault.
_TIMES = 4


def sections_apart(
    data: bytes,
    name: str,
    architecture: Architecture,
    failure: ToolError,
    groups: list[list[Symbol]],
) -> tuple[tuple[Section, ...], tuple[UnreadFunction, ...]]:
    """What can be disassembled of ``groups``, the functions that share a section, and which cannot.

    ``failure`` is that of the whole.

    Raises it again when nothing can, or there is nothing to part.
    """
    DISTURBANCES.count += 1  # what is said of this cubin may be another thing the next time
    if len(groups) < 2:
        raise failure
    halves = _Halves(data, name, architecture)
    for start in range(0, len(groups), MOST_AT_ONCE):
        halves.read(groups[start : start + MOST_AT_ONCE], whole=len(groups) <= MOST_AT_ONCE)
    if not halves.sections:
        raise failure
    return tuple(halves.sections), tuple(halves.unread)


class _Halves:
    def __init__(self, data: bytes, name: str, architecture: Architecture) -> None:
        self._data = data
        self._name = name
        self._architecture = architecture
        self._deadline = time.monotonic() + _TIMES * limits().tool_seconds
        self._failures = 0
        self.sections: list[Section] = []
        self.unread: list[UnreadFunction] = []

    def read(self, groups: list[list[Symbol]], whole: bool = False) -> None:
        """Disassemble some sections; ``whole`` when they are known to fail together."""
        failure = None if whole else self._tried(groups)
        if not whole and failure is None:
            return
        if len(groups) > 1:
            middle = len(groups) // 2
            self.read(groups[:middle])
            self.read(groups[middle:])
            return
        self._failures += 1
        self.unread += [
            UnreadFunction(one.name, demangle(one.name), self._architecture, one.is_kernel, str(failure))
            for one in groups[0]
        ]

    def _tried(self, groups: list[list[Symbol]]) -> ToolError | None:
        if self._failures >= _MOST_FAILURES_IN_A_ROW and not self.sections:
            return ToolError(f"{self._name}: nvdisasm fails on one function after the other")
        if time.monotonic() > self._deadline:
            return ToolError(f"{self._name}: nvdisasm took too long for the functions before (tool-seconds)")
        try:
            self.sections += disassembled(self._data, self._name, [group[0].index for group in groups])
        except ToolError as error:
            return error
        return None
