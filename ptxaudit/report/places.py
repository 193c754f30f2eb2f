"""Which place of a finding a reader of a diff is shown, and whether it is a line of a file."""

from ptxaudit.engine.image import SEPARATOR
from ptxaudit.rules.model import CodePlace, Finding
from ptxaudit.source import Location, LocationKind

_PREFERENCE = (LocationKind.SOURCE, LocationKind.PTX, LocationKind.SASS)


def best_place(finding: Finding) -> CodePlace:
    """The place that a reader of a diff wants: the primary one, or its line in a language before it."""
    same = (finding.primary, *finding.primary.twins)
    return min(same, key=lambda one: _PREFERENCE.index(one.location.kind))


def has_no_lines(location: Location) -> bool:
    """Whether no file has the place as a line: machine code, or PTX inside of another file."""
    inside = location.kind is LocationKind.PTX and SEPARATOR in location.file
    return inside or location.kind is LocationKind.SASS
