"""Which warps pay for a synchronisation."""

from ptxaudit.cost.payers import Acting, payers, paying


def acting(name: str, cta: int, *instructions: int) -> Acting:
    return Acting(name, cta, (), (0,), frozenset(instructions))


def test_roles_that_all_ctas_have_are_named_once() -> None:
    both = payers(
        [acting("warp 0", 0, 1), acting("warps 1-3", 0), acting("warp 0", 1, 2), acting("warps 1-3", 1)]
    )
    assert [one.name for one in both] == ["warp 0", "warps 1-3"]
    assert both[0].instructions == {1, 2}


def test_where_ctas_differ_roles_are_named_with_theirs() -> None:
    names = [one.name for one in payers([acting("warps 5-7", 0), acting("warps 4-7", 1)])]
    assert names == ["CTA 0 warps 5-7", "CTA 1 warps 4-7"]


def test_every_warp_that_comes_to_some_attempt_pays_for_the_wait() -> None:
    known = payers([acting("warp 4", 0, 10), acting("warp 5", 0, 20), acting("warp 6", 0, 30)])
    assert [one.name for one in paying(known, {10, 20}, 0)] == ["warp 4", "warp 5"]
