"""Keeps the garbage collector from walking what a front end builds: none of it is garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Nothing is collected inside; without this a large kernel is walked again and again while it grows."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
