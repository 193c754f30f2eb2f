"""Which targets have the instructions that came with later ones, by the "Target ISA Notes" of the PTX ISA.

Known limit: whole families only. That single modifiers came later, or differ between architectures, is left
to the assembler.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ptxaudit.arch import Architecture


@dataclass(frozen=True, slots=True)
class Requirement:
    """A family of instructions and the targets that have it: in words, and as a question."""

    family: str
    targets: str
    has: Callable[[Architecture], bool]

    def covers(self, name: str) -> bool:
        """Whether an instruction, by its canonical name, is one of the family."""
        return name == self.family or name.startswith(f"{self.family}.")


def _since(number: int, *families: str) -> tuple[Requirement, ...]:
    """Families that every target from this one on has."""
    needed = f"sm_{number} or later"
    return tuple(Requirement(one, needed, lambda target: target.number >= number) for one in families)


def _is_specific(target: Architecture) -> bool:
    """Whether the target has the features of one architecture (``a``) or family (``f``)."""
    return target.suffix != ""


_REQUIREMENTS = (
    Requirement("wgmma", "sm_90a", lambda target: target.name == "sm_90a"),
    Requirement(
        "tcgen05",
        "one of sm_100 to sm_110 with a or f",
        lambda target: target.has_tensor_memory and _is_specific(target),
    ),
    Requirement(
        "setmaxnreg",
        "sm_90a or later with a or f",
        lambda target: target.number >= 90 and _is_specific(target),
    ),
    *_since(100, "clusterlaunchcontrol"),
    *_since(
        90,
        "cp.async.bulk",
        "cp.reduce.async.bulk",
        "st.async",
        "red.async",
        "mapa",
        "getctarank",
        "barrier.cluster",
        "fence.proxy.async",
        "fence.mbarrier_init",
        "griddepcontrol",
        "elect",
        "multimem",
        "stmatrix",
    ),
    *_since(80, "mbarrier", "cp.async", "redux"),
    *_since(75, "ldmatrix"),
)


def missing_requirement(name: str, target: Architecture) -> Requirement | None:
    """What the target lacks to have an instruction, by its canonical name; ``None`` where it has it."""
    one = next((one for one in _REQUIREMENTS if one.covers(name)), None)
    return None if one is None or one.has(target) else one
