"""Recall on mutants of real kernels: ``mutants.py CORPUSDIR [--limit 120] [--seed 0] [--match REGEX]``.

Draws one-defect mutants (``mutant_operators.py``) of the corpus's PTX files, audits them
and prints, as Markdown, how many were named by a right rule at error or warning, by operator and by rule, and
then every other one with its place. Only what the unmodified kernel does not show counts. Silent mutants
that a reader found harmless (``harmless_mutants.toml``) stand apart. Run by hand, with ``nice``: a mutant
takes some seconds. ``--json FILE`` keeps each result, one a line; ``--again FILE`` audits those once more
that such a file does not have as named.
"""

import argparse
import json
import random
import re
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from limited import OutOfTime, all_rules, time_limit
from mutant_operators import RIGHT, Mutant, mutants

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import Rule
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.rules.model import Category, Severity, Verdict
from ptxaudit.source import SourceText

# The paged FlashAttention-4 kernel for sm_100a takes minutes for each mutant.
KERNELS = (
    r"splitk.*0\.7\.4|cross_warpgroup.*3\.9\.0|fa4(?!.*paged.*sm_100a).*sm_(90a|100a)"
    r"|(matmul_tma|attn)(_ws)?\.sm_(90|100)\.ptx|matmul\.sm_80\.ptx"
)
GEMM_RING = Path(__file__).parents[2] / "fixtures" / "kernels" / "gemm_ring" / "gemm_ring.ptx"
MOST_PER_KERNEL = 12
LEAST_PER_KERNEL = 3
FULL_SHARE_BYTES = 70_000
HARMLESS = Path(__file__).with_name("harmless_mutants.toml")
OUTCOMES = ("right", "note", "other", "unknown", "silent", "no answer", "harmless")


@dataclass(frozen=True, slots=True)
class Said:
    """What the correctness rules say: findings as (rule, severity, line), rules decided and not."""

    findings: frozenset[tuple[str, str, int]] = frozenset()
    decided: frozenset[str] = frozenset()
    undecided: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Result:
    """A mutant and how it was met; ``rules`` are the new findings that say so."""

    kernel: str
    operator: str
    line: int
    before: str
    after: str
    outcome: str
    rules: tuple[str, ...] = ()
    all_rules: tuple[str, ...] = field(default=())
    seconds: float = 0.0


def main() -> None:
    """Draw, audit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--limit", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default=KERNELS)
    parser.add_argument("--operator", default="")
    parser.add_argument("--seconds", type=int, default=120, help="processor time for one audit")
    parser.add_argument("--jobs", type=int, default=1, help="audits at a time, one process each")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--again", type=Path)
    arguments = parser.parse_args()
    files = [path for path in arguments.corpus.glob("*.ptx") if re.search(arguments.match, path.name)]
    if re.search(arguments.match, GEMM_RING.name) or arguments.match == KERNELS:
        files.append(GEMM_RING)
    files.sort(key=lambda path: (path.stat().st_size, path.name))
    kept: list[Result] = []
    if arguments.again is None:
        drawn = draw(files, arguments.limit, arguments.seed, arguments.operator)
    else:
        drawn, kept = unnamed(files, arguments.again)
    results = [*kept, *measure(drawn, arguments.seconds, arguments.json, arguments.jobs)]
    print(table([harmless(result) for result in results]))


def draw(files: list[Path], limit: int, seed: int, wanted: str) -> dict[Path, list[Mutant]]:
    """At most ``limit`` mutants, dealt out in rounds over the kernels; large kernels have a smaller share.

    Within a kernel the next operator is one that was drawn least so far, over all kernels.
    """
    generator = random.Random(seed)
    pools: dict[Path, dict[str, list[Mutant]]] = {}
    for path in files:
        text = path.read_text()
        pool: dict[str, list[Mutant]] = defaultdict(list)
        for mutant in mutants(load_ptx(SourceText(path.name, text)).functions, text):
            if re.search(wanted, mutant.operator):
                pool[mutant.operator].append(mutant)
        for candidates in pool.values():
            generator.shuffle(candidates)
        pools[path] = pool
    used: Counter[str] = Counter()
    drawn: dict[Path, list[Mutant]] = {path: [] for path in files}
    for turn in range(MOST_PER_KERNEL):
        for path in files:
            left = {name: candidates for name, candidates in pools[path].items() if candidates}
            if turn < share(path) and left and used.total() < limit:
                name = min(left, key=lambda name: (used[name], generator.random()))
                drawn[path].append(left[name].pop())
                used[name] += 1
    return drawn


def unnamed(files: list[Path], log: Path) -> tuple[dict[Path, list[Mutant]], list[Result]]:
    """The mutants of a log that no right rule named, to be audited again, and the results of the others."""
    results = [Result(**json.loads(line)) for line in log.read_text().splitlines()]
    kept = [result for result in results if result.outcome == "right"]
    wanted = {(result.kernel, result.line, result.operator) for result in results if result not in kept}
    drawn: dict[Path, list[Mutant]] = {}
    for path in files:
        text = path.read_text()
        found = mutants(load_ptx(SourceText(path.name, text)).functions, text)
        drawn[path] = [mutant for mutant in found if (path.name, mutant.line, mutant.operator) in wanted]
    return drawn, kept


def harmless(result: Result) -> Result:
    """The result, set apart when the mutant was silent and a reader found that nothing can show it."""
    classes = tomllib.loads(HARMLESS.read_text())["class"]
    read = {name: entry["reason"] for entry in classes for name in entry["mutants"]}
    name = f"{result.kernel}:{result.line} {result.operator}"
    if result.outcome != "silent" or name not in read:
        return result
    return replace(result, outcome="harmless", rules=(read[name],))


def share(path: Path) -> int:
    """How many mutants a kernel may give: analysis takes longer the larger it is."""
    wanted = MOST_PER_KERNEL * FULL_SHARE_BYTES // path.stat().st_size
    return max(LEAST_PER_KERNEL, min(MOST_PER_KERNEL, wanted))


def measure(drawn: dict[Path, list[Mutant]], seconds: int, log: Path | None, jobs: int) -> Iterable[Result]:
    """Audit each kernel and its mutants, ``jobs`` at a time."""
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        # The largest first: one that starts last would leave the other processes idle.
        chosen = sorted(drawn, key=lambda path: -path.stat().st_size)
        originals = {
            path: pool.submit(said, path.name, path.read_text(), 4 * seconds)
            for path in chosen
            if drawn[path]
        }
        asked = [
            pool.submit(judge, path.name, mutant, originals[path].result(), seconds)
            for path in originals
            for mutant in drawn[path]
        ]
        for answer in as_completed(asked):
            result = answer.result()
            print(f"{result.kernel}:{result.line} {result.operator}: {result.outcome}", file=sys.stderr)
            if log is not None:
                with log.open("a") as stream:
                    stream.write(json.dumps(asdict(result)) + "\n")
            yield result


@cache
def correctness_rules() -> tuple[Rule, ...]:
    """Every correctness rule."""
    return tuple(rule for rule in all_rules() if rule.pattern.category is Category.CORRECTNESS)


def said(name: str, text: str, seconds: int) -> Said:
    """What the rules say of a text. Raises :class:`OutOfTime`."""
    options = AuditOptions(rules=correctness_rules(), jobs=1)
    with time_limit(seconds):
        run = audit((image_of(name, text.encode()),), options)
    for error in run.internal_errors:
        print(error.message, file=sys.stderr)
    for read in run.report.inputs:
        if read.error is not None:
            raise ValueError(read.error)
    verdicts = [item for function in run.report.functions for item in function.verdicts.items()]
    undecided = frozenset(rule for rule, verdict in verdicts if verdict is Verdict.UNKNOWN)
    places = frozenset(
        (finding.rule, finding.severity.value, finding.primary.location.line or 0)
        for finding in run.report.findings
    )
    return Said(places, frozenset(rule for rule, _ in verdicts) - undecided, undecided)


def judge(kernel: str, mutant: Mutant, original: Said, seconds: int) -> Result:
    """How a mutant was met."""
    right, start = RIGHT[mutant.operator], time.monotonic()
    base = Result(kernel, mutant.operator, mutant.line, mutant.before, mutant.after, "silent")
    try:
        now = said(kernel, mutant.text, seconds)
    except OutOfTime:
        return replace(base, outcome="no answer")
    new = now.findings - original.findings
    heavy = {rule for rule, severity, _ in new if severity != Severity.NOTE.value}
    light = {rule for rule, severity, _ in new if severity == Severity.NOTE.value}
    lost = now.undecided & original.decided & right
    met = (
        ("right", heavy & right),
        ("note", light & right),
        ("other", heavy | light),
        ("unknown", lost),
    )
    outcome, shown = next(((name, found) for name, found in met if found), ("silent", set()))
    taken = round(time.monotonic() - start, 1)
    return replace(
        base,
        outcome=outcome,
        rules=tuple(sorted(shown)),
        all_rules=tuple(sorted(heavy | light)),
        seconds=taken,
    )


def table(results: list[Result]) -> str:
    """Markdown: by operator, by rule, and every mutant that no right rule named."""
    by_operator: dict[str, Counter[str]] = defaultdict(Counter)
    rules: Counter[str] = Counter()
    for result in results:
        by_operator[result.operator][result.outcome] += 1
        if result.outcome in {"right", "note"}:
            rules.update(result.rules)
    names = [name for name in RIGHT if name in by_operator]
    lines = ["| Mutant | n | " + " | ".join(OUTCOMES) + " |", "|---|" + "---:|" * (len(OUTCOMES) + 1)]
    lines += [row(name, by_operator[name]) for name in names]
    lines.append(row("all", sum((by_operator[name] for name in names), Counter())))
    lines += ["", "| Rule | right name of |", "|---|---:|"]
    lines += [f"| `{rule}` | {count} |" for rule, count in rules.most_common()]
    lines += ["", *(missed(result) for result in results if result.outcome != "right")]
    return "\n".join(lines)


def row(name: str, counts: Counter[str]) -> str:
    """One operator's line."""
    cells = [str(counts.total()), *(str(counts[outcome] or "") for outcome in OUTCOMES)]
    return f"| {name} | " + " | ".join(cells) + " |"


def missed(result: Result) -> str:
    """A line on a mutant that was not named by a right rule."""
    by = f" ({', '.join(result.rules)})" if result.rules else ""
    place = f"{result.kernel}:{result.line}"
    return f"- {place} {result.operator}: {result.outcome}{by}: `{result.before.strip()}`"


if __name__ == "__main__":
    main()
