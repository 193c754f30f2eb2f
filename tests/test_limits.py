"""How a function that takes more than its share is stopped."""

import time

import pytest

from ptxaudit import limits
from ptxaudit.limits import DISTURBANCES, LimitReached, bounded


def test_an_interrupt_that_is_lost_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What raises in a callback of the garbage collector or a finaliser is told to nobody."""
    monkeypatch.setattr(limits._Watch, "_exceeded", lambda watch: "stopped")
    lost = 0
    with pytest.raises(LimitReached, match=r"^stopped$"), bounded():
        while lost < 2:
            try:
                wait_for_ever()
            except LimitReached:
                lost += 1
        wait_for_ever()
    assert lost == 2


def wait_for_ever() -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pass


def test_an_interrupt_at_the_end_of_a_watch_does_not_take_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = limits._Watch.end
    met: list[bool] = []

    def interrupted(watch: limits._Watch) -> str | None:
        if not met:
            met.append(True)
            raise LimitReached
        return ended(watch)

    monkeypatch.setattr(limits._Watch, "_exceeded", lambda watch: "stopped")
    monkeypatch.setattr(limits._Watch, "end", interrupted)
    with pytest.raises(LimitReached, match=r"^stopped$"), bounded():
        wait_for_ever()
    assert met


def test_what_stays_within_its_limits_is_not_disturbed() -> None:
    before = DISTURBANCES.count
    with bounded():
        time.sleep(0.3)
    assert DISTURBANCES.count == before
