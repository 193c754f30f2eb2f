"""Which warps execute a synchronisation, and whether they are likely on the critical path.

A role is taken to be on the critical path when it issues matrix products, or is the only one of its CTA. That
is a heuristic, and reports list it among the assumptions. Where the function was not executed, no role is
known.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis

_PRODUCTS = ("wgmma issue", "tcgen05.mma")


@dataclass(frozen=True, slots=True)
class Payer:
    """A role by name: the blocks that it executes, the synchronisations in them that it was seen to execute,
    whether it is likely on the critical path."""

    name: str
    blocks: frozenset[int]
    critical: bool | None
    instructions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Acting:
    """A role of one CTA: what it does, by kind with the number of places, the blocks that it executes, and
    the instructions that it was seen to execute, as far as executions look at them."""

    name: str
    cta: int
    activities: Sequence[tuple[str, int]]
    blocks: Sequence[int]
    instructions: frozenset[int] = frozenset()


def payers(roles: Sequence[Acting]) -> tuple[Payer, ...]:
    """The roles, each once for all CTAs where these have the same ones, else with the CTA in the name."""
    ctas = {role.cta for role in roles}
    alike = len({frozenset(role.name for role in roles if role.cta == cta) for cta in ctas}) == 1
    multiplies = any(_multiplies(role) for role in roles)
    found: dict[str, Payer] = {}
    for role in roles:
        alone = sum(other.cta == role.cta for other in roles) == 1
        critical = True if alone or _multiplies(role) else (False if multiplies else None)
        blocks, instructions = frozenset(role.blocks), role.instructions
        name = role.name if alike else f"CTA {role.cta} {role.name}"
        known = found.get(name)
        if known is not None:
            blocks |= known.blocks
            instructions |= known.instructions
            critical = known.critical or critical
        found[name] = Payer(name, blocks, critical, instructions)
    return tuple(found.values())


def executed_roles(analysis: FunctionAnalysis) -> tuple[Acting, ...]:
    """The roles that an execution of the function has shown; none where it was not executed."""
    if analysis.known("order") is None:
        return ()
    # Where no rule asked, the order engine need not even be loaded.
    from ptxaudit.analysis.order.roles import executed_blocks, roles_in

    return tuple(
        Acting(
            role.name,
            role.cta,
            role.activities,
            executed_blocks(analysis, role.instructions),
            role.instructions,
        )
        for role in roles_in(analysis)
    )


def _multiplies(role: Acting) -> bool:
    return any(activity in _PRODUCTS for activity, _ in role.activities)


def verdict(several: Iterable[Payer]) -> bool | None:
    """Whether one of the roles is likely on the critical path."""
    verdicts = {one.critical for one in several}
    return True if True in verdicts else (False if verdicts == {False} else None)


def executing(known: tuple[Payer, ...], block: int) -> tuple[Payer, ...]:
    """The roles that execute a block."""
    return tuple(one for one in known if block in one.blocks)


def paying(known: tuple[Payer, ...], instructions: Iterable[int], block: int) -> tuple[Payer, ...]:
    """The roles that execute a synchronisation: those that were seen to, or those that execute its block."""
    seen = frozenset(instructions)
    exactly = tuple(one for one in known if not one.instructions.isdisjoint(seen))
    return exactly or executing(known, block)
