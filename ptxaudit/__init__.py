"""ptxaudit: reads the PTX and SASS that a build really emitted and audits its synchronisation."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxaudit.api import audit as audit

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the Python interface when it is asked for: the command line does without it."""
    if name != "audit":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ptxaudit import api

    return api.audit
