"""A function's code as the page carries it: one compressed block, which its script reads when it is opened.

A block is made where the function is audited, so that a report of many functions holds only these.
"""

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence

from ptxaudit.report.characters import seen
from ptxaudit.report.drawing import Picture, draw_blocks
from ptxaudit.rules.code import CodePairs, CodeText, FunctionCode
from ptxaudit.rules.model import Cost

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
        "costs": {index: _cost(cost) for index, cost in text.costs.items()},
        "picture": _picture(draw_blocks(text)),
    }


def _cost(cost: Cost) -> dict[str, object]:
    return {"cycles": cost.cycles, "frequency": cost.frequency, "summary": cost.summary}


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
