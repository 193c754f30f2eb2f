"""The code of a function for a page: from its analyses to a record that holds no IR."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.join import Join, synchronisation
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.cost.budget import budget, budget_for
from ptxaudit.cost.payers import Acting
from ptxaudit.engine.findings import block_label, shown_text
from ptxaudit.engine.sources import found_name, source_window
from ptxaudit.engine.twins import CONFIDENCE
from ptxaudit.ir.function import Language
from ptxaudit.rules.budget import Budget
from ptxaudit.rules.code import (
    CodeBlock,
    CodeLoop,
    CodePairs,
    CodeRole,
    CodeSource,
    CodeText,
    FunctionCode,
)
from ptxaudit.source import SourceLine
from ptxaudit.words import clipped

if TYPE_CHECKING:
    from ptxaudit.analysis.order.roles import Role

_SOURCE_REACH = 3
_DECLARATION = re.compile(r"\.(?:entry|func)\b")


@dataclass(slots=True)
class _Sources:
    """The lines of the sources that instructions come from, each once."""

    lines: list[CodeSource] = field(default_factory=list)
    _places: dict[SourceLine, int] = field(default_factory=dict)

    def place(self, line: SourceLine) -> int:
        """Where a line is among the sources, with the lines that it was inlined at."""
        if line not in self._places:
            caller = None if line.inlined_at is None else self.place(line.inlined_at)
            self._places[line] = len(self.lines)
            self.lines.append(CodeSource(found_name(line.file), line.line, caller))
        return self._places[line]

    def texts(self) -> dict[str, dict[int, str]]:
        """The lines that can be read, with some around them."""
        texts: dict[str, dict[int, str]] = {}
        for one in self.lines:
            window = source_window(one.file, one.line - _SOURCE_REACH, one.line + _SOURCE_REACH)
            if window:
                texts.setdefault(one.file, {}).update(window)
        return {file: dict(sorted(lines.items())) for file, lines in texts.items()}


@dataclass(frozen=True, slots=True)
class _Seen:
    """A role, the analysis whose executions show it, and for each language the instructions that it was seen
    to execute."""

    role: CodeRole
    own: FunctionAnalysis
    instructions: Mapping[str, frozenset[int]]


def function_code(
    first: FunctionAnalysis,
    second: FunctionAnalysis | None,
    join: Join | None,
    sass_sources: Mapping[int, tuple[str, int]],
    split: dict[str, list[str]],
) -> FunctionCode | None:
    """The code of a function, with the other language where it was joined; ``None`` for one without code.

    ``sass_sources`` are the lines of the source by SASS instruction, where the cubin tells them; ``split``
    keeps the lines of the modules' texts, by name, from one function to the next.
    """
    if not first.function.instructions:
        return None
    sources = _Sources()
    analyses = _languages(first, second, join)
    seen = tuple(_roles(analyses, join))
    texts = tuple(_text(one, _budget(one, seen), sources, sass_sources, split) for one in analyses)
    pairs = None if join is None or len(texts) == 1 else _pairs(join)
    function = first.function
    return FunctionCode(
        name=function.name,
        demangled=function.demangled,
        texts=texts,
        pairs=pairs,
        roles=tuple(one.role for one in seen),
        sources=tuple(sources.lines),
        source_texts=sources.texts(),
    )


def function_budget(first: FunctionAnalysis, second: FunctionAnalysis | None, join: Join | None) -> Budget:
    """What a function's synchronisation costs: by its SASS where that is at hand, which is what runs."""
    analyses = _languages(first, second, join)
    return _budget(analyses[-1], tuple(_roles(analyses, join)))


def _languages(
    first: FunctionAnalysis, second: FunctionAnalysis | None, join: Join | None
) -> list[FunctionAnalysis]:
    """The languages of a function, PTX first; the second one where it was joined."""
    analyses = [first] if second is None or join is None else [first, second]
    return sorted(analyses, key=lambda one: one.function.language is Language.SASS)


def _budget(analysis: FunctionAnalysis, roles: Sequence[_Seen]) -> Budget:
    if all(one.own is analysis for one in roles):
        return budget(analysis)
    language = analysis.function.language.value
    acting = [
        Acting(
            one.role.name,
            one.role.cta,
            one.role.activities,
            one.role.blocks[language],
            one.instructions[language],
        )
        for one in roles
    ]
    return analysis.memo("budget for a report", lambda: budget_for(analysis, acting))


def _text(
    analysis: FunctionAnalysis,
    budget: Budget,
    sources: _Sources,
    sass_sources: Mapping[int, tuple[str, int]],
    split: dict[str, list[str]],
) -> CodeText:
    function = analysis.function
    is_sass = function.language is Language.SASS
    numbers = [one.location.line or 1 for one in function.instructions]
    if is_sass:
        # A large cubin is read part by part: the text at hand may not be the one that lines are counted in.
        start, shown = min(numbers), [shown_text(one) for one in function.instructions]
    else:
        if analysis.module.name not in split:
            split[analysis.module.name] = analysis.module.text.split("\n")
        lines = split[analysis.module.name]
        start, end = _extent(lines, min(numbers), max(numbers))
        shown = [clipped(line) for line in lines[start - 1 : end]]
    named = {i: SourceLine(*line) for i, line in sass_sources.items()} if is_sass else function.source_lines
    kinds = ((index, synchronisation(events)) for index, events in enumerate(analysis.events))
    return CodeText(
        language=function.language.value,
        listing=analysis.module.name,
        first=start,
        lines=tuple(shown),
        line_of=tuple(range(len(shown))) if is_sass else tuple(number - start for number in numbers),
        offsets=tuple(one.location.offset or 0 for one in function.instructions) if is_sass else (),
        sources={index: sources.place(line) for index, line in named.items() if line.line > 0},
        synchronisation={index: several for index, several in kinds if several},
        blocks=tuple(
            CodeBlock(block_label(function, block.id), block.start, block.end, block.successors)
            for block in function.blocks
        ),
        loops=tuple(_loops(analysis)),
        budget=budget,
    )


def _extent(lines: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """The 1-based lines from the declaration of a PTX function to the brace that closes it, told from the
    lines of its first and last instruction."""
    start = first
    while start > 1 and not _DECLARATION.search(lines[start - 1].partition("//")[0]):
        start -= 1
    depth = 0
    for number in range(start, len(lines) + 1):
        code = lines[number - 1].partition("//")[0]
        depth += code.count("{") - code.count("}")
        if number >= last and depth <= 0:
            return start, number
    return start, last


def _loops(analysis: FunctionAnalysis) -> Iterator[CodeLoop]:
    found = poll_loops(analysis)
    working = {loop.header: found.is_innermost(loop) for loop in found.working}
    for loop in analysis.graph.loops:
        polls = loop.header not in working
        hot = working.get(loop.header, False)
        yield CodeLoop(loop.header, tuple(sorted(loop.blocks)), loop.depth, polls, hot)


def _pairs(join: Join) -> CodePairs:
    telling = frozenset(index for several in join.sass_of.values() for index in several)
    return CodePairs(join.ptx_of, telling, str(join.method), CONFIDENCE[join.method])


def _roles(analyses: Sequence[FunctionAnalysis], join: Join | None) -> Iterator[_Seen]:
    """The roles that the executions of the audit show; none where no rule had the function executed."""
    executed = [one for one in analyses if one.known("order") is not None]
    if not executed:
        return
    # Where no rule asked, the order engine need not even be loaded.
    from ptxaudit.analysis.order.roles import executed_blocks, roles_in

    shown = {id(one): roles_in(one) for one in executed}
    own = executed[0]
    for role in shown[id(own)]:
        blocks: dict[str, tuple[int, ...]] = {}
        instructions: dict[str, frozenset[int]] = {}
        for one in analyses:
            same = role.instructions if one is own else _of_warps(role, shown.get(id(one), ()))
            # The other language may not have been executed, or with other sizes.
            same = same or _translated(role.instructions, own, join)
            language = one.function.language.value
            blocks[language], instructions[language] = executed_blocks(one, same), same
        yield _Seen(CodeRole(role.name, role.cta, role.activities, blocks), own, instructions)


def _of_warps(role: "Role", shown: "tuple[Role, ...]") -> frozenset[int]:
    """What the warps of a role execute by the roles of one language."""
    warps = set(role.warps)
    same = (one.instructions for one in shown if one.cta == role.cta and not warps.isdisjoint(one.warps))
    return frozenset().union(*same)


def _translated(instructions: frozenset[int], own: FunctionAnalysis, join: Join | None) -> frozenset[int]:
    """The same instructions in the other language."""
    if join is None:
        return frozenset()
    if own.function.language is Language.PTX:
        return frozenset(one for index in instructions for one in join.sass_of.get(index, ()))
    return frozenset(join.ptx_of[index] for index in instructions if index in join.ptx_of)
