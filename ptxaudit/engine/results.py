"""What an audit is asked, and what one image gives."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ptxaudit.arch import Architecture
from ptxaudit.engine.function_audit import InternalError
from ptxaudit.engine.launches import NamedLaunch
from ptxaudit.engine.registry import Rule
from ptxaudit.engine.selection import Selection
from ptxaudit.engine.thresholds import DEFAULTS, SetThresholds
from ptxaudit.limits import Limits, limits
from ptxaudit.rules.code import FunctionCode
from ptxaudit.rules.model import CommentedSource, Finding, FunctionReport, InputReport, SkippedInput
from ptxaudit.stopwatch import Timings

COMMENT_WORD = "ptxaudit:"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What to audit: ``rules``, functions whose name matches ``kernel``, built for ``architecture``.

    ``architecture`` without a suffix also takes the suffixed targets of the same number. ``strict`` also
    reports notes of low confidence. ``jobs`` is the number of processes, 0 for as many as pay off.
    ``count`` has each function's synchronisations listed, for a comparison.
    ``listings`` keeps the texts that a page shows excerpts of, those without findings up to 32 MB in all;
    texts with a comment for ptxaudit are kept anyway.
    ``assemble`` has PTX assembled, so that its SASS is audited too. ``timings`` notes in each input's report
    where its time went.
    ``pack`` makes of each function's code what a report keeps of it; it runs where the function is audited,
    which may be another process. Without it no code is kept.
    ``budget`` has each function priced that a rule applies to (all, where no rule is asked), ``roles`` has
    it executed for that, so that the roles which pay are known. ``limits`` are those in force where this is
    made.
    ``partial`` makes an interruption (Ctrl-C, a signal to stop) end the audit with what there is, in a report
    that says so. ``scan`` leaves SASS functions unread that have no instruction that a rule is about; the
    report is the same without.
    ``thresholds`` are those of rules that a project has set.
    ``scheduler`` is that of a Dask cluster on whose workers it is done, by its address or its file.
    """

    rules: tuple[Rule, ...]
    kernel: re.Pattern[str] | None = None
    architecture: Architecture | None = None
    strict: bool = False
    jobs: int = 0
    launches: tuple[NamedLaunch, ...] = ()
    count: bool = False
    listings: bool = True
    assemble: bool = False
    timings: bool = False
    pack: Callable[[FunctionCode], bytes] | None = None
    budget: bool = False
    roles: bool = False
    limits: Limits = field(default_factory=limits)
    partial: bool = False
    scan: bool = True
    scheduler: str | None = None
    thresholds: SetThresholds = DEFAULTS

    @property
    def selection(self) -> Selection:
        """Which functions are asked for."""
        return Selection(self.kernel, self.architecture)


@dataclass(frozen=True, slots=True)
class PassedBy:
    """An image that was not asked for: its name, and what it holds as far as that was read."""

    name: str
    architecture: str = ""
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageResult:
    """What one image gave; crosses process borders. ``report`` is ``None`` when it was not asked for,
    which ``passed_by`` then tells of.

    ``listings`` are the texts that its places are in, by name, ``code`` is the packed code of its functions,
    by name, ``sources`` are the texts with comments for ptxaudit.
    ``no_assembler`` says that its PTX was not assembled for want of an assembler.

    What is of images that were audited together stands in the first of their results: ``timings`` are
    processor seconds by stage; ``consulted`` are the sources that were looked at, with what tells whether
    they have changed; ``disturbed`` says that a tool failed for reasons that may be gone the next time.
    """

    report: InputReport | None
    functions: tuple[FunctionReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    listings: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, bytes] = field(default_factory=dict)
    matched: bool = False
    internal_errors: tuple[InternalError, ...] = ()
    skipped: SkippedInput | None = None
    passed_by: PassedBy | None = None
    no_assembler: str | None = None
    timings: Timings = field(default_factory=dict, compare=False)
    sources: Mapping[str, CommentedSource] = field(default_factory=dict)
    consulted: Mapping[str, str] = field(default_factory=dict, compare=False)
    disturbed: bool = False


Results = tuple[tuple[ImageResult, ...], ...]
"""The results of several tasks, of each those of its images."""
