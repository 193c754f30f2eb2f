"""What an audit looks for in SASS, so that functions without it need not be disassembled."""

from ptxaudit.engine.image import KernelImage
from ptxaudit.engine.registry import needs_of
from ptxaudit.engine.results import AuditOptions
from ptxaudit.ir.events import Access
from ptxaudit.ir.traits import Trait

# The disassembler is done with less before the scan is loaded.
_LARGEST_STARTED = 1 << 19


def is_worth_scanning(image: KernelImage, options: AuditOptions) -> bool:
    """Whether the disassembler of a lone cubin had better wait for what the scan says."""
    return len(image.content) > _LARGEST_STARTED and sought_roots(options) is not None


def sought_roots(options: AuditOptions) -> frozenset[str] | None:
    """The root mnemonics of which a function has to have one to be of interest; ``None`` for any.

    A function without them is not applicable to every rule that is asked. Every function is read for a
    page, which shows its code, and for a comparison.
    """
    if not options.scan or options.count or options.pack is not None:
        return None
    needs: set[Trait] = set()
    for rule in options.rules:
        own = needs_of(rule)
        # Nearly every function accesses memory: looking for that is time lost.
        if own is None or Access in own:
            return None
        needs.update(own)
    from ptxaudit.isa.sass.traits import roots_with

    return roots_with(needs)
