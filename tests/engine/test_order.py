"""What is done in several processes is answered in order and once, also when it is interrupted."""

from collections.abc import Iterator

import pytest

from ptxaudit.engine.image import image_of
from ptxaudit.engine.parallel import in_order
from ptxaudit.engine.progress import SILENT
from ptxaudit.engine.results import ImageResult, Results
from ptxaudit.engine.units import Task, Work
from ptxaudit.errors import Stopped

TASKS = [Task((image_of(f"{number}.ptx", b".version 8.0"),)) for number in range(6)]


class Done:
    def __init__(self, work: Work) -> None:
        self._work = work

    def is_done(self) -> bool:
        return True

    def result(self) -> Results:
        return tuple((ImageResult(None),) for _ in self._work)


def answers() -> Iterator[object]:
    work: list[Work | ImageResult] = [tuple(TASKS[:4]), ImageResult(None), tuple(TASKS[4:])]
    return in_order(Done, iter(work), 1, SILENT)


@pytest.mark.parametrize("given", range(1, 7))
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), Stopped(15)])
def test_an_interrupt_gives_no_answer_twice(given: int, interrupt: BaseException) -> None:
    expected = list(answers())
    assert len(expected) == 7
    running = answers()
    got = [next(running) for _ in range(given)]
    assert isinstance(running, Iterator)
    got.append(running.throw(interrupt))  # type: ignore[attr-defined]
    with pytest.raises(type(interrupt)):
        while True:
            got.append(next(running))
    assert got == expected
