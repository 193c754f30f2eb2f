"""A comparison of two builds as one self-contained HTML page."""

from ptxaudit.engine.compare import Comparison
from ptxaudit.report.characters import visible
from ptxaudit.report.compare_text import fixed_or_gone, grouped, incomplete, priced, said, totals
from ptxaudit.report.html import inline, page_environment, source_hash


def render(comparison: Comparison, old: str, new: str) -> str:
    """The page; ``old`` and ``new`` are what the sides are called."""
    environment = page_environment()
    style = inline(environment, "report.css")
    text = environment.get_template("compare.html.j2").render(
        kernels=[kernel for kernel in comparison.kernels if kernel.is_changed],
        same=sum(not kernel.is_changed for kernel in comparison.kernels),
        incomplete=incomplete(comparison),
        totals=totals(comparison),
        grouped=grouped,
        said=said,
        priced=priced,
        fixed_or_gone=fixed_or_gone,
        old=old,
        new=new,
        style=style,
        style_hash=source_hash(style),
    )
    return visible(text)
