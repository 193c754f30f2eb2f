"""Which warps execute a synchronisation, and whether they are likely on the critical path.

The roles are those that the order engine's executions show; where none were asked for, nothing is said. A
role is taken to be on the critical path when it issues matrix products, or is the only one of its CTA. That
is a heuristic, and reports list it among the assumptions.
"""

from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis

_PRODUCTS = ("wgmma issue", "tcgen05.mma")


@dataclass(frozen=True, slots=True)
class Payer:
    """A role by name: the blocks that it executes, whether it is likely on the critical path."""

    name: str
    blocks: frozenset[int]
    critical: bool | None


def payers(analysis: FunctionAnalysis) -> tuple[Payer, ...]:
    """The roles of the executions of the audit, each once for all CTAs; none where nothing was executed."""
    if analysis.known("order") is None:
        return ()
    return analysis.memo("payers", lambda: _find(analysis))


def _find(analysis: FunctionAnalysis) -> tuple[Payer, ...]:
    # Where no rule asked, the order engine need not even be loaded.
    from ptxaudit.analysis.order.explore import order_of
    from ptxaudit.analysis.order.roles import executed_blocks, roles_of

    roles = roles_of(order_of(analysis))
    multiplies = any(_multiplies(role.activities) for role in roles)
    found: dict[str, Payer] = {}
    for role in roles:
        alone = sum(other.cta == role.cta for other in roles) == 1
        critical = True if alone or _multiplies(role.activities) else (False if multiplies else None)
        blocks = frozenset(executed_blocks(analysis.graph, role.instructions))
        known = found.get(role.name)
        if known is not None:
            blocks |= known.blocks
            critical = known.critical or critical
        found[role.name] = Payer(role.name, blocks, critical)
    return tuple(found.values())


def _multiplies(activities: tuple[tuple[str, int], ...]) -> bool:
    return any(activity in _PRODUCTS for activity, _ in activities)


def verdict(several: tuple[Payer, ...]) -> bool | None:
    """Whether one of the roles is likely on the critical path."""
    verdicts = {one.critical for one in several}
    return True if True in verdicts else (False if verdicts == {False} else None)


def executing(known: tuple[Payer, ...], block: int) -> tuple[Payer, ...]:
    """The roles that execute a block."""
    return tuple(one for one in known if block in one.blocks)
