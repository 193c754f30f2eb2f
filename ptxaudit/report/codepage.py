"""A function's code as the page carries it: one compressed block, which its script reads when it is opened.

A block is made where the function is audited, so that a report of many functions holds only these.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from ptxaudit.report import budgets
from ptxaudit.report.characters import seen
from ptxaudit.report.drawing import Picture, draw_blocks
from ptxaudit.rules.budget import Budget, Cycles, Part, PlaceCost
from ptxaudit.rules.code import CodePairs, CodeText, FunctionCode

_LEVEL = 6


def pack_code(code: FunctionCode) -> bytes:
    """The block of a function: JSON, compressed."""
    document = {
        "name": code.name,
        "shown": code.demangled or code.name,
        "texts": [_text(text) for text in code.texts],
        "pairs": None if code.pairs is None else _pairs(code.pairs, len(code.texts[1].line_of)),
        "roles": [
            {"name": role.name, "cta": role.cta, "does": role.activities, "blocks": role.blocks}
            for role in code.roles
        ],
        "sources": [[one.file, one.line, -1 if one.caller is None else one.caller] for one in code.sources],
        "sourceTexts": code.source_texts,
    }
    text = json.dumps(seen(document), separators=(",", ":"), ensure_ascii=False)
    # Without a time stamp, so that the same code gives the same page.
    return gzip.compress(text.encode(), _LEVEL, mtime=0)


def code_anchor(input_name: str, function: str) -> str:
    """What links call a function's code: the same in every report of the same input."""
    joined = "\0".join((input_name, function)).encode("utf-8", "surrogatepass")
    return "c-" + hashlib.sha256(joined).hexdigest()[:12]


def _text(text: CodeText) -> dict[str, object]:
    count = len(text.line_of)
    return {
        "language": text.language,
        "listing": text.listing,
        "first": text.first,
        "lines": text.lines,
        "lineOf": text.line_of,
        "offsets": text.offsets,
        "sources": _by_index(text.sources, count),
        "sync": {index: ", ".join(kinds) for index, kinds in text.synchronisation.items()},
        "blocks": [[block.name, block.start, block.end, block.successors] for block in text.blocks],
        "loops": [[loop.header, loop.blocks, loop.depth, loop.polls, loop.hot] for loop in text.loops],
        "costs": {} if text.budget is None else _costs(text.budget),
        "budget": None if text.budget is None else _budget(text.budget),
        "picture": _picture(draw_blocks(text)),
    }


def _costs(budget: Budget) -> dict[int, dict[str, object]]:
    """What the places cost that cost something, for the margin: by the instruction that names each."""
    return {
        place.index: {
            "cycles": None if place.cycles is None else _rounded(place.cycles),
            "rank": place.rank,
            "frequency": place.executions.value,
            "summary": "; ".join(_circumstances(place, budget)),
        }
        for place in budget.places
        if place.rank is not None
    }


def _circumstances(place: PlaceCost, budget: Budget) -> Iterator[str]:
    yield (
        place.operation
        if place.cycles is not None
        else f"{place.operation}, not measured on this architecture"
    )
    if place.share is not None:
        yield f"{place.share:.0%} of what its loop spends on synchronisation"
    yield from (text for text in (place.waits_for, place.forces) if text)
    if place.roles:
        path = {True: ", likely on the critical path", False: ", likely not on the critical path", None: ""}
        yield f"paid by {', '.join(place.roles)}{path[place.critical]}"
    if place.extrapolated:
        yield "beyond what was measured"


def _rounded(cycles: Cycles) -> list[int]:
    return [round(cycles.low), round(cycles.high), round(cycles.estimate)]


def _budget(budget: Budget) -> dict[str, object]:
    """Each loop by its header: cycles of an iteration and their parts; last what stands in no loop."""
    return {
        "measured": budget.measured,
        "device": budget.device,
        "threads": budget.threads,
        "loops": [
            [loop.header, _spent(loop.cycles, loop.parts), budgets.operations(budget, loop.header)]
            for loop in budget.loops
            if loop.places
        ],
        "once": [
            _spent(budget.once, budget.once_parts),
            budgets.operations(budget, None),
            "; ".join(budget.once_roles),
        ],
        "assumptions": budget.assumptions,
        "legend": budgets.LEGEND,
    }


def _spent(cycles: Cycles | None, parts: Mapping[Part, float]) -> dict[str, object] | None:
    if cycles is None:
        return None
    shares = [[part.value, share] for part, share in budgets.shares(parts)]
    return {"cycles": _rounded(cycles), "shares": shares}


def _pairs(pairs: CodePairs, sass: int) -> dict[str, object]:
    return {
        "ptxOf": _by_index(pairs.ptx_of, sass),
        "telling": sorted(pairs.telling),
        "method": pairs.method,
        "confidence": pairs.confidence.value,
    }


def _by_index(known: Mapping[int, int], count: int) -> Sequence[int]:
    """The values by index, -1 where there is none; nothing where there is none at all."""
    return [known.get(index, -1) for index in range(count)] if known else ()


def _picture(picture: Picture | None) -> dict[str, object] | None:
    if picture is None:
        return None
    return {
        "width": picture.width,
        "height": picture.height,
        "boxes": [[box.x, box.y, box.width, box.height, box.lines] for box in picture.boxes],
        "edges": [
            [edge.source, edge.target, [number for point in edge.points for number in point]]
            for edge in picture.edges
        ],
    }
