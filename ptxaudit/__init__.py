"""ptxaudit: reads the PTX and SASS that a build really emitted and audits its synchronisation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxaudit.api import audit as audit
    from ptxaudit.intake.live.session import capture as capture

__version__ = "0.1.0"
_INTERFACE = {"audit": "ptxaudit.api", "capture": "ptxaudit.intake.live.session"}


def __getattr__(name: str) -> Any:
    """Load the Python interface when it is asked for: the command line does without it."""
    if name not in _INTERFACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_INTERFACE[name]), name)
