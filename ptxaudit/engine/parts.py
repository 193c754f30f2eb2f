"""The results of a cubin that was audited part by part, joined to those of the whole."""

from dataclasses import replace

from ptxaudit.engine.results import ImageResult
from ptxaudit.engine.sources import merged_sources


def whole_result(parts: list[ImageResult]) -> ImageResult:
    """What an audit of all parts together gives; ``parts`` are in their order, at least one."""
    first = parts[0]
    assert first.report is not None
    listings: dict[str, str] = {}
    sources = dict(first.sources)
    for part in parts:
        for name, text in part.listings.items():
            listings[name] = listings.get(name, "") + text
        sources = merged_sources(sources, part.sources)
    notes = dict.fromkeys(note for part in parts if part.report is not None for note in part.report.notes)
    return replace(
        first,
        report=replace(first.report, notes=tuple(notes)),
        functions=tuple(one for part in parts for one in part.functions),
        findings=tuple(one for part in parts for one in part.findings),
        listings=listings,
        code={name: packed for part in parts for name, packed in part.code.items()},
        matched=any(part.matched for part in parts),
        internal_errors=tuple(dict.fromkeys(one for part in parts for one in part.internal_errors)),
        sources=sources,
    )
