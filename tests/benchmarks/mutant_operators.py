"""One-defect mutants of a PTX text: which instruction each operator changes, how, and what names the defect.

The product's own parser finds the instructions; the edit is one of text, within the statement, and keeps
the lines as they are. Each operator lists the rules whose finding counts as the right name for its defect.
What a dropped barrier, wait or arrive breaks depends on what it ordered, so these list every rule about such
an order.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptxaudit.ir.function import Function
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Register

_WARP = 32
_BYTES = 16
_ANY = 1 << 20

_TENSOR_MEMORY = frozenset(
    {
        "tcgen05-load-released-early",
        "tcgen05-store-published-early",
        "tmem-address-unpublished",
        "tmem-dealloc-before-join",
        "tmem-pair-dealloc-without-cluster-barrier",
    }
)
_PROTOCOL = frozenset(
    {"mbarrier-arrival-count-mismatch", "synchronization-deadlock", "mbarrier-expect-tx-without-arrive"}
)
_PROXY = frozenset(
    {"async-read-of-generic-write", "async-write-over-generic-read", "proxy-fence-not-by-writer"}
)
_WGMMA = frozenset(
    {"wgmma-stage-released-early", "wgmma-cross-warpgroup-reuse", "wgmma-register-operand-overwritten"}
)
_BULK = frozenset({"bulk-store-source-reused", "bulk-wait-not-broadcast", "bulk-read-wait-then-publish"})
_COPIES = frozenset({"cp-async-not-drained", "cp-async-wait-without-barrier"})
_NAMED = frozenset({"named-barrier-count-mismatch", "named-barrier-run-ahead", "synchronization-deadlock"})
_CLUSTER = frozenset({"dsmem-access-before-cluster-sync", "dsmem-access-after-peer-exit"})
_SCOPE = frozenset(
    {
        "mbarrier-wait-scope-too-narrow",
        "relaxed-wait-without-acquire",
        "acquire-fence-too-narrow",
        "remote-arrive-scope-too-narrow",
    }
)
_PDL = frozenset({"pdl-access-before-wait", "pdl-wait-missing"})
_RACE = frozenset({"shared-memory-race"})
_INIT = frozenset({"mbarrier-init-unpublished"})
_WAITED = _RACE | _WGMMA | _TENSOR_MEMORY | _INIT | {"mbarrier-phase-alias", "synchronization-deadlock"}
_JOINED = (
    _WAITED
    | _PROXY
    | _BULK
    | _COPIES
    | _NAMED
    | {
        "elected-arrive-without-syncwarp",
        "flag-published-before-join",
        "pdl-trigger-before-writers-join",
    }
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed text: ``operator`` at ``line``, ``before`` and ``after`` the statement."""

    operator: str
    line: int
    before: str
    after: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of the text: its instruction and the offsets from its guard to behind its ``;``."""

    function: Function
    instruction: Instruction
    start: int
    end: int


Edit = Callable[[Place, str], str | None]


@dataclass(frozen=True, slots=True)
class Operator:
    """``edit`` makes the new statement of the old one, or ``None`` where it does not apply."""

    name: str
    right: frozenset[str]
    opcode: re.Pattern[str]
    edit: Edit


def mutants(functions: tuple[Function, ...], text: str) -> Iterator[Mutant]:
    """Every mutant of the text, by operator and then in program order."""
    places = tuple(_places(functions, text))
    for operator in OPERATORS:
        for place in places:
            if operator.opcode.match(place.instruction.opcode) is None:
                continue
            before = text[place.start : place.end]
            after = operator.edit(place, before)
            if after is not None:
                changed = text[: place.start] + after + text[place.end :]
                yield Mutant(operator.name, _line(place), before, after.strip(), changed)
    yield from _early_arrivals(places, text)


def _line(place: Place) -> int:
    line = place.instruction.location.line
    assert line is not None
    return line


def _places(functions: tuple[Function, ...], text: str) -> Iterator[Place]:
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    for function in functions:
        for instruction in function.instructions:
            line, column = instruction.location.line, instruction.location.column
            assert line is not None and column is not None
            start = starts[line - 1] + column - 1
            yield Place(function, instruction, start, text.index(";", start) + 1)


def _drop(place: Place, before: str) -> str | None:
    return re.sub(r"[^\n]", " ", before)


def _satisfied(place: Place, before: str) -> str | None:
    """The wait's predicate is true at once."""
    head = re.match(r"((?:@!?\S+\s+)?)[a-z]\S+\s+([^\s,|]+)", before)
    return None if head is None else f"{head[1]}setp.eq.u32 {head[2]}, 0, 0;"


def _replaced(pattern: str, replacement: str) -> Edit:
    """Replace the first match, where there is one."""

    def edit(place: Place, before: str) -> str | None:
        after, count = re.subn(pattern, replacement, before, count=1)
        return after if count else None

    return edit


def _added(amount: int, least: int, most: int = _ANY) -> Edit:
    """Add to the last operand, a number that the text states here or at the register's only definition."""

    def edit(place: Place, before: str) -> str | None:
        operands = place.instruction.operands
        value = _number(place.function, operands[-1]) if operands else None
        if value is None or not least <= value + amount <= most:
            return None
        after, count = re.subn(r"([^\s,]+)(\s*;)$", rf"{value + amount}\2", before)
        return after if count else None

    return edit


def _number(function: Function, operand: object) -> int | None:
    if isinstance(operand, Immediate) and isinstance(operand.value, int):
        return operand.value
    if not isinstance(operand, Register):
        return None
    writers = [i for i in function.instructions if operand in i.writes]
    if len(writers) != 1 or not writers[0].opcode.startswith("mov."):
        return None
    source = writers[0].operands[-1]
    return source.value if isinstance(source, Immediate) and isinstance(source.value, int) else None


def _early_arrivals(places: tuple[Place, ...], text: str) -> Iterator[Mutant]:
    """An arrive moved before the wait that precedes it in its block."""
    for position, place in enumerate(places):
        if re.match(r"mbarrier\.arrive\.(?!expect_tx)", place.instruction.opcode) is None:
            continue
        wait = _preceding_wait(places, position)
        if wait is None:
            continue
        arrive = text[place.start : place.end]
        changed = (
            text[: wait.start]
            + arrive
            + text[wait.start : place.start]
            + re.sub(r"[^\n]", " ", arrive)
            + text[place.end :]
        )
        after = f"moved before {text[wait.start : wait.end]}"
        yield Mutant(EARLY_ARRIVE, _line(place), arrive, after, changed)


def _preceding_wait(places: tuple[Place, ...], position: int) -> Place | None:
    """The last wait before the arrive in the same block, if nothing between writes the arrive's registers."""
    place = places[position]
    needed = set(place.instruction.reads)
    block = place.function.block_of(place.instruction.index)
    for earlier in reversed(places[:position]):
        inside = earlier.function is place.function and earlier.instruction.index >= block.start
        if not inside or needed & set(earlier.instruction.writes):
            return None
        if re.match(r"wgmma\.wait_group|tcgen05\.wait::ld", earlier.instruction.opcode):
            return earlier
    return None


def _of_copies(edit: Edit) -> Edit:
    """Only where the group holds copies: ``tensormap.cp_fenceproxy``, which Triton commits, is none."""

    def guarded(place: Place, before: str) -> str | None:
        block = place.function.block_of(place.instruction.index)
        earlier = place.function.instructions[block.start : place.instruction.index]
        grouped = re.compile(r"cp\.(reduce\.)?async\.bulk\.(?!commit|wait|prefetch)|tensormap\.cp_fenceproxy")
        last = next((i.opcode for i in reversed(earlier) if grouped.match(i.opcode)), "")
        return None if last.startswith("tensormap") else edit(place, before)

    return guarded


def _widened(place: Place, before: str) -> str | None:
    """A named barrier that counts a warp more; one without a count has none to change."""
    return _added(_WARP, _WARP)(place, before) if len(place.instruction.operands) > 1 else None


def _operator(name: str, right: frozenset[str], opcode: str, edit: Edit) -> Operator:
    return Operator(name, right, re.compile(opcode), edit)


EARLY_ARRIVE = "arrive before the wait"

OPERATORS = (
    _operator("drop proxy fence", _PROXY, r"fence\.proxy\.async", _drop),
    _operator("drop CTA barrier", _JOINED, r"(bar|barrier)\.(cta\.)?sync", _drop),
    _operator("drop named arrive", _NAMED, r"(bar|barrier)\.(cta\.)?arrive", _drop),
    _operator("barrier count +32", _NAMED, r"(bar|barrier)\.(cta\.)?(sync|arrive)", _widened),
    _operator("drop warp barrier", _RACE | {"elected-arrive-without-syncwarp"}, r"bar\.warp\.sync", _drop),
    _operator("drop wgmma wait", _WGMMA | _RACE, r"wgmma\.wait_group", _drop),
    _operator("wgmma wait +1", _WGMMA | _RACE, r"wgmma\.wait_group", _added(1, 1)),
    _operator("drop wgmma fence", frozenset({"wgmma-fence-missing"}), r"wgmma\.fence", _drop),
    _operator("drop mbarrier wait", _WAITED, r"mbarrier\.(try|test)_wait", _satisfied),
    _operator(
        "acquire to default scope",
        _SCOPE,
        r"mbarrier\.(try|test)_wait.*\.acquire\.cluster",
        _replaced(r"\.acquire\.cluster", ""),
    ),
    _operator(
        "wait to relaxed",
        _SCOPE | _RACE,
        r"mbarrier\.(try|test)_wait.*\.acquire\.(cta|cluster)",
        _replaced(r"\.acquire\.", ".relaxed."),
    ),
    _operator(
        "release to CTA scope",
        _SCOPE,
        r"mbarrier\.arrive.*\.release\.cluster",
        _replaced(r"\.release\.cluster", ".release.cta"),
    ),
    _operator("drop fence", _SCOPE | {"flag-published-before-join"}, r"fence\.(acq|rel|sc)|membar", _drop),
    _operator(
        "expect_tx +16",
        _PROTOCOL | {"mbarrier-tx-bytes-mismatch"},
        r"mbarrier\.(arrive\.)?expect_tx",
        _added(_BYTES, 1),
    ),
    _operator("init count +1", _PROTOCOL, r"mbarrier\.init", _added(1, 1)),
    _operator("init count -1", _PROTOCOL | _WAITED, r"mbarrier\.init", _added(-1, 1)),
    _operator("drop arrive", _PROTOCOL, r"mbarrier\.arrive", _drop),
    _operator("drop fence.mbarrier_init", _INIT, r"fence\.mbarrier_init", _drop),
    _operator(
        "drop tensor store wait",
        frozenset({"tcgen05-store-published-early"}),
        r"tcgen05\.wait::st",
        _drop,
    ),
    _operator(
        "drop tensor load wait",
        frozenset({"tcgen05-load-released-early", "tmem-dealloc-before-join"}),
        r"tcgen05\.wait::ld",
        _drop,
    ),
    _operator("drop tcgen05 fence", frozenset({"tcgen05-fence-missing"}), r"tcgen05\.fence", _drop),
    _operator("drop tcgen05 commit", _PROTOCOL | _TENSOR_MEMORY, r"tcgen05\.commit", _drop),
    _operator("drop cp.async wait", _COPIES, r"cp\.async\.wait_(group|all)", _drop),
    _operator("cp.async wait +1", _COPIES, r"cp\.async\.wait_group", _added(1, 1)),
    _operator("drop cp.async commit", _COPIES, r"cp\.async\.commit_group", _drop),
    _operator("drop bulk wait", _BULK, r"cp\.async\.bulk\.wait_group", _of_copies(_drop)),
    _operator("bulk wait +1", _BULK, r"cp\.async\.bulk\.wait_group", _of_copies(_added(1, 1))),
    _operator("drop bulk commit", _BULK, r"cp\.async\.bulk\.commit_group", _of_copies(_drop)),
    _operator(
        "drop cluster barrier wait", _CLUSTER | _INIT | _NAMED | _RACE, r"barrier\.cluster\.wait", _drop
    ),
    _operator(
        "drop cluster barrier arrive", _CLUSTER | _INIT | _NAMED | _RACE, r"barrier\.cluster\.arrive", _drop
    ),
    _operator("drop griddepcontrol.wait", _PDL, r"griddepcontrol\.wait", _drop),
    _operator("registers +8", frozenset({"setmaxnreg-budget-mismatch"}), r"setmaxnreg", _added(8, 24, 256)),
)

RIGHT = {operator.name: operator.right for operator in OPERATORS} | {
    EARLY_ARRIVE: _WAITED | {"tcgen05-load-released-early"}
}
