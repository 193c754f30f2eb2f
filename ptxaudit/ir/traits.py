"""What tells events apart roughly: their kind, and of an access also its proxy and completion.

A rule says by traits what a function must have to be of interest to it, so that a front end can leave out
functions that have none of it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ptxaudit.ir.events import Access, Completion, Event, Proxy

Trait = type[Any] | Completion | Proxy


def traits_of(event: Event) -> Iterator[Trait]:
    """The traits of one event."""
    yield type(event)
    if isinstance(event, Access):
        yield event.proxy
        yield event.completion


def all_traits(several: Iterable[Iterable[Event]]) -> frozenset[Trait]:
    """The traits that any of the events of some instructions has."""
    return frozenset(trait for events in several for event in events for trait in traits_of(event))
