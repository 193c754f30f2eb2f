"""The code of the sample report's functions: PTX as the engine reads it, SASS and roles made up beside it."""

import re
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.code import function_code
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.rules.budget import Budget, Cycles, Executions, LoopCost, Part, PlaceCost
from ptxaudit.rules.code import (
    CodeBlock,
    CodeLoop,
    CodePairs,
    CodeRole,
    CodeSource,
    CodeText,
    FunctionCode,
)
from ptxaudit.rules.model import Confidence
from ptxaudit.source import Location, LocationKind, SourceText

SOURCE = "src/splitk_mailbox.cuh"
_ROW = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s*(.*)$")


def ptx_code(name: str, text: str) -> dict[str, FunctionCode]:
    """The code of a PTX text's functions, by name."""
    module = load_ptx(SourceText(name, text))
    made = (function_code(FunctionAnalysis(one, module), None, None, {}, {}) for one in module.functions)
    return {code.name: code for code in made if code is not None}


def sass_text(name: str, listing: str, function: str) -> CodeText:
    """The SASS of a function in a listing of nvdisasm, as one block and a loop that polls, if it has one."""
    lines = listing.split("\n")
    start = lines.index(f".text.{function}:") + 1
    end = next((i for i in range(start, len(lines)) if ".section" in lines[i]), len(lines) - 1)
    rows = [(number, match) for number in range(start, end) if (match := _ROW.match(lines[number]))]
    shown = tuple(match[2] if (match := _ROW.match(line)) else line for line in lines[start:end])
    waits = [index for index, (_, match) in enumerate(rows) if "TRYWAIT" in match[2]]
    count = len(rows)
    blocks = [CodeBlock("0x0000", 0, count, ())]
    if waits:
        wait = waits[0]
        blocks = [
            CodeBlock("0x0000", 0, wait, (1,)),
            CodeBlock(".L_x_12", wait, wait + 4, (2, 1)),
            CodeBlock("0x0a60", wait + 4, count, ()),
        ]
    invalidates = [index for index, (_, match) in enumerate(rows) if match[2].startswith("CCTL.IVALL")]
    places = tuple(
        PlaceCost(
            index,
            (index,),
            Location(LocationKind.SASS, name, offset=int(rows[index][1][1], 16)),
            "CCTL.IVALL",
            "l1.invalidate",
            Part.INVALIDATE,
            Executions.ATTEMPT,
            loop=1,
            forces="1 load is fetched again: the address stays within a line",
            cycles=Cycles(270, 235, 305),
            parts={Part.INVALIDATE: 270},
            share=0.9,
            rank=1,
        )
        for index in invalidates
    )
    loop = LoopCost(
        1,
        Location(LocationKind.SASS, name, offset=0),
        1,
        True,
        4,
        tuple(invalidates),
        Cycles(300, 260, 340),
        {Part.INVALIDATE: 270, Part.BARRIER: 30},
    )
    budget = Budget(
        places, (loop,) if waits else (), 128, "sm_90a", "H200", assumptions=("a poll succeeds at once",)
    )
    return CodeText(
        language="sass",
        listing=name,
        first=start + 1,
        lines=shown,
        line_of=tuple(number - start for number, _ in rows),
        offsets=tuple(int(match[1], 16) for _, match in rows),
        synchronisation={index: ("mbarrier wait",) for index in waits},
        blocks=tuple(blocks),
        loops=(CodeLoop(1, (1,), 1, True, False),) if waits else (),
        budget=budget,
    )


def joined(ptx: FunctionCode, sass: CodeText) -> FunctionCode:
    """PTX and SASS together: the wait, the load and the exit are paired; two roles; a source that is there
    for one line and not for the other."""
    text = ptx.texts[0]

    def index(one: CodeText, word: str) -> int:
        return next(index for index, line in enumerate(one.line_of) if word in one.lines[line])

    pairs = {
        index(sass, "TRYWAIT"): index(text, "mbarrier.try_wait"),
        index(sass, "NANOSLEEP"): index(text, "mbarrier.try_wait"),
        index(sass, "LDS.128"): index(text, "ld.shared"),
        index(sass, "EXIT"): index(text, "ret;"),
    }
    sources = (CodeSource("python/kernel.py", 7), CodeSource(SOURCE, 118, 0), CodeSource("gone.cuh", 292))
    wait, load = index(text, "mbarrier.try_wait"), index(text, "ld.shared")
    everywhere = tuple(range(len(text.blocks)))
    return replace(
        ptx,
        texts=(replace(text, sources={wait: 1, load: 2}), sass),
        pairs=CodePairs(pairs, frozenset(pairs) - {index(sass, "NANOSLEEP")}, "line table", Confidence.HIGH),
        roles=(
            CodeRole("warp 0", 0, (("mbarrier wait", 1),), {"ptx": everywhere, "sass": (0, 1, 2)}),
            CodeRole("warps 1-5", 0, (("asynchronous write", 1),), {"ptx": (0,), "sass": (0,)}),
        ),
        sources=sources,
        source_texts={SOURCE: {117: "// the leader waits", 118: "while (!barrier.try_wait(phase)) {}"}},
    )
