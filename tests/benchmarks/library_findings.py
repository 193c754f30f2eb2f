"""What ptxaudit says of the kernels of a library: ``library_findings.py INPUT [--count 200] [--seed 1]``.

``INPUT`` is a wheel (its cubins are read straight from the zip), or a directory of PTX and cubins. Draws
``--count`` kernels at random (all when it is left out), the same number from each stratum as far as they go,
audits each with a time limit of its own, and prints as Markdown: the findings by rule and severity, the
decided verdicts by rule, why the others are unknown, and every correctness finding at error or warning with
its place. A stratum is a folder with the words of the file names that stand for a way to build the kernel.

``--json FILE`` keeps each result, one a line; a run with the same file goes on where the last one ended, and
with ``--tables`` only prints it. ``--extract DIR`` writes the drawn kernels to a directory instead, to audit
them on another machine. ``--jobs`` is the number of processes. Run by hand, with ``nice``.
"""

import argparse
import json
import random
import re
import sys
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

from limited import OutOfTime, all_rules, time_limit

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of
from ptxaudit.rules.model import Category

# How flashinfer-cubin names what tells its kernels' synchronisation apart.
STRATUM_WORDS = re.compile(
    r"Sm\d+[af]?|sm\d+[af]?|Context|KeepsAbForGen|SwapsAbForGen|Persistent|Static|MultiCtasKv(?:Cga|GmemSep)?"
    r"|2Cta|Sage|schedS|schPd|splitK|ldgsts(?!Sf)|c[12]x1x[12]|fp8_\w+gemm"
)
SUFFIXES = (".cubin", ".ptx")


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel file: in which zip or directory, and under which name."""

    container: Path
    name: str

    def read(self) -> bytes:
        """The bytes."""
        if self.container.is_dir():
            return (self.container / self.name).read_bytes()
        with zipfile.ZipFile(self.container) as archive:
            return archive.read(self.name)

    @property
    def stratum(self) -> str:
        """What the kernel is drawn with."""
        folder, _, file = self.name.rpartition("/")
        return " ".join((folder, *sorted(set(STRATUM_WORDS.findall(file)))))


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding: its rule, severity, confidence, where, and its message."""

    rule: str
    category: str
    severity: str
    confidence: str
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """What the rules say of one file: verdicts by function and rule; ``fault`` where it was not audited."""

    name: str
    stratum: str
    seconds: float
    fault: str | None = None
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    findings: tuple[Shown, ...] = ()


def main() -> None:
    """Draw, audit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path)
    parser.add_argument("--count", type=int, default=0, help="kernels to draw; all when left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="regular expression for the names")
    parser.add_argument("--seconds", type=int, default=120, help="processor time for one audit")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--extract", type=Path)
    arguments = parser.parse_args()
    drawn = draw(members(arguments.input, arguments.match), arguments.count, arguments.seed)
    if arguments.extract is not None:
        extract(drawn, arguments.extract)
        return
    done = results_in(arguments.json) if arguments.json is not None and arguments.json.exists() else []
    names = {member.name for member in drawn}
    done = [result for result in done if result.name in names]
    if not arguments.tables:
        left = names - {result.name for result in done}
        todo = [member for member in drawn if member.name in left]
        done += audited(todo, arguments.seconds, arguments.jobs, arguments.json)
    print(tables(done))


def members(container: Path, match: str) -> list[Member]:
    """The kernel files of a zip or directory whose names match, sorted."""
    if container.is_dir():
        files = (path.relative_to(container) for path in container.rglob("*"))
        names = [str(path) for path in files if not any(part.startswith(".") for part in path.parts)]
    else:
        with zipfile.ZipFile(container) as archive:
            names = archive.namelist()
    chosen = (name for name in names if name.endswith(SUFFIXES) and re.search(match, name))
    return [Member(container, name) for name in sorted(chosen)]


def draw(pool: list[Member], count: int, seed: int) -> list[Member]:
    """``count`` members, one from each stratum in turn; all of them for 0."""
    if not count:
        return pool
    generator = random.Random(seed)
    strata: dict[str, list[Member]] = defaultdict(list)
    for member in pool:
        strata[member.stratum].append(member)
    for several in strata.values():
        generator.shuffle(several)
    order = list(strata.values())
    generator.shuffle(order)
    drawn: list[Member] = []
    while len(drawn) < count and any(order):
        drawn += [several.pop() for several in order if several][: count - len(drawn)]
    return drawn


def extract(drawn: Iterable[Member], directory: Path) -> None:
    """Write the members below a directory, under their names."""
    for member in drawn:
        path = directory / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.read())


def audited(todo: list[Member], seconds: int, jobs: int, log: Path | None) -> Iterator[Result]:
    """Audit the members; each result is logged as it comes."""
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        futures = [pool.submit(one, member, seconds) for member in todo]
        for number, future in enumerate(as_completed(futures), 1):
            result = future.result()
            short = result.name.rpartition("/")[2]
            told = result.fault or f"{decided_share(result)}, {len(result.findings)} findings"
            print(f"[{number}/{len(todo)}] {result.seconds:6.1f} s {short}: {told}", file=sys.stderr)
            if log is not None:
                with log.open("a") as stream:
                    stream.write(json.dumps(asdict(result)) + "\n")
            yield result


def one(member: Member, seconds: int) -> Result:
    """Audit one member within a limit of processor time."""
    rules, start = all_rules(), time.process_time()
    try:
        with time_limit(seconds):
            source = image_of(member.name, member.read())
            run = audit((source,), AuditOptions(rules=rules, jobs=1))
    except OutOfTime:
        return Result(member.name, member.stratum, float(seconds), f"stopped after {seconds} s")
    took = round(time.process_time() - start, 1)
    faults = [read.error for read in run.report.inputs if read.error is not None]
    faults += [error.message for error in run.internal_errors]
    findings = tuple(
        Shown(
            finding.rule,
            finding.category.value,
            finding.severity.value,
            finding.confidence.value,
            str(finding.primary.location).removeprefix(member.name),
            finding.message,
        )
        for finding in run.report.findings
    )
    verdicts = {f.name: {rule: str(v) for rule, v in f.verdicts.items()} for f in run.report.functions}
    reasons = {f.name: dict(f.unknown_reasons) for f in run.report.functions}
    return Result(
        member.name, member.stratum, took, faults[0] if faults else None, verdicts, reasons, findings
    )


def results_in(log: Path) -> list[Result]:
    """The results that a log holds."""
    results = []
    for line in log.read_text().splitlines():
        kept = json.loads(line)
        kept["findings"] = tuple(Shown(**finding) for finding in kept["findings"])
        results.append(Result(**kept))
    return results


def counted(results: Iterable[Result]) -> dict[str, Counter[str]]:
    """How often each rule gave each verdict."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for verdicts in result.verdicts.values():
            for rule, verdict in verdicts.items():
                counts[rule][verdict] += 1
    return counts


def share(counts: Counter[str]) -> tuple[int, int]:
    """Decided and applicable verdicts."""
    decided = counts["finding"] + counts["clean"]
    return decided, decided + counts["unknown"]


def decided_share(result: Result) -> str:
    """For the progress line."""
    decided, applicable = share(sum(counted([result]).values(), Counter()))
    return f"{decided} of {applicable} decided"


def percent(part: int, whole: int) -> str:
    """A share for a table; empty where there is nothing to share."""
    return f"{100 * part / whole:.0f} %" if whole else ""


def tables(results: list[Result]) -> str:
    """Everything that is printed, as Markdown."""
    faults = [result for result in results if result.fault is not None]
    functions = sum(len(result.verdicts) for result in results)
    seconds = sorted(result.seconds for result in results) or [0.0]
    lines = [
        f"{len(results)} files, {functions} functions, {len({r.stratum for r in results})} strata, "
        f"{sum(seconds):.0f} s of processor time, median {seconds[len(seconds) // 2]:.1f} s, "
        f"most {seconds[-1]:.1f} s, {len(faults)} not audited",
        *(f"- {result.name}: {result.fault}" for result in faults),
        "",
        *verdict_table(results),
        "",
        *finding_table(results),
        "",
        *reason_list(results),
        "",
        *heavy_findings(results),
    ]
    return "\n".join(lines)


def verdict_table(results: list[Result]) -> list[str]:
    """The decided verdicts by rule."""
    counts = counted(results)
    lines = ["| Rule | Applicable | Finding | Clean | Unknown | Decided |", "|---|---:|---:|---:|---:|---:|"]
    totals: Counter[str] = Counter()
    for rule in sorted(counts):
        if share(counts[rule])[1]:
            totals += counts[rule]
            lines.append(verdict_row(f"`{rule}`", counts[rule]))
    return [*lines, verdict_row("all", totals)]


def verdict_row(name: str, counts: Counter[str]) -> str:
    """One line of the table of verdicts."""
    decided, applicable = share(counts)
    shown = (str(counts[verdict] or "") for verdict in ("finding", "clean", "unknown"))
    cells = (name, str(applicable), *shown, percent(decided, applicable))
    return f"| {' | '.join(cells)} |"


def finding_table(results: list[Result]) -> list[str]:
    """How many findings each rule gave, and in how many files."""
    many: Counter[tuple[str, str, str]] = Counter()
    files: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for result in results:
        for finding in result.findings:
            key = (finding.rule, finding.severity, finding.confidence)
            many[key] += 1
            files[key].add(result.name)
    lines = ["| Rule | Severity | Confidence | Findings | Files |", "|---|---|---|---:|---:|"]
    for key, number in sorted(many.items()):
        lines.append(f"| `{key[0]}` | {key[1]} | {key[2]} | {number} | {len(files[key])} |")
    return lines


def reason_list(results: list[Result]) -> list[str]:
    """Why verdicts are unknown: how many, in how many files, places left out."""
    verdicts: Counter[str] = Counter()
    files: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for function, reasons in result.reasons.items():
            for rule, reason in reasons.items():
                if result.verdicts[function].get(rule) == "unknown":
                    general = re.sub(r"\S*\+?0x[0-9a-f]+|\d+", "#", reason.replace(result.name, ""))
                    verdicts[general] += 1
                    files[general].add(result.name)
    return [
        f"- {number} unknown verdicts in {len(files[reason])} files: {reason}"
        for reason, number in verdicts.most_common(40)
    ]


def heavy_findings(results: list[Result]) -> list[str]:
    """Every correctness finding at error or warning: each wants a judgement."""
    lines = []
    for result in sorted(results, key=lambda result: result.name):
        for finding in result.findings:
            if finding.category == Category.CORRECTNESS.value and finding.severity != "note":
                lines.append(f"- {finding.severity} `{finding.rule}` {result.name}{finding.place}")
                lines.append(f"  {finding.message}")
    return lines


if __name__ == "__main__":
    main()
