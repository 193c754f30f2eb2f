"""What an audit looks for in SASS, so that functions without it need not be disassembled."""

from collections.abc import Iterator

from ptxaudit.engine.image import ImageKind, KernelImage
from ptxaudit.engine.registry import needs_of
from ptxaudit.engine.results import AuditOptions, ImageResult
from ptxaudit.engine.units import Task, Work
from ptxaudit.ir.events import Access
from ptxaudit.ir.traits import Trait

# Of a cubin up to this size the disassembler takes most of its time to start.
_LARGEST_BATCHED = 1 << 19
_BATCH_BYTES = 1 << 21
_FIRST_BATCH, _FIRST_BATCHES, _LARGEST_BATCH = 4, 2, 16
# The disassembler is done with less before the scan is loaded.
_LARGEST_STARTED = 1 << 19


def is_worth_scanning(image: KernelImage, options: AuditOptions) -> bool:
    """Whether the disassembler of a lone cubin had better wait for what the scan says."""
    return len(image.content) > _LARGEST_STARTED and sought_roots(options) is not None


def can_be_batched(task: Task, options: AuditOptions) -> bool:
    """Whether a cubin is best disassembled with others: where its audit takes little more than that."""
    image = task.images[0]
    return (
        len(task.images) == 1
        and image.kind is ImageKind.CUBIN
        and image.started is None
        and len(image.content) <= _LARGEST_BATCHED
        and sought_roots(options) is not None
    )


def batches(
    tasks: Iterator[Task | ImageResult], options: AuditOptions, jobs: int
) -> Iterator[Work | ImageResult]:
    """The tasks, those that follow each other and are best disassembled together in one tuple.

    The first ones are short, so that each of ``jobs`` processes has one soon.
    """
    held: list[Task] = []
    size = given = 0
    for task in tasks:
        together = isinstance(task, Task) and can_be_batched(task, options)
        most = _FIRST_BATCH if given < _FIRST_BATCHES * jobs else _LARGEST_BATCH
        if held and (not together or len(held) == most or size > _BATCH_BYTES):
            yield tuple(held)
            given += 1
            held, size = [], 0
        if isinstance(task, ImageResult):
            yield task
        elif together:
            held.append(task)
            size += task.size
        else:
            yield (task,)
    if held:
        yield tuple(held)


def sought_roots(options: AuditOptions) -> frozenset[str] | None:
    """The root mnemonics of which a function has to have one to be of interest; ``None`` for any.

    A function without them is not applicable to every rule that is asked. Every function is read for a
    page, which shows its code, for a comparison, and where no rule is asked.
    """
    if not options.scan or not options.rules or options.count or options.pack is not None:
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
