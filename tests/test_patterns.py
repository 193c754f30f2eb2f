"""Patterns: their schema, their bijection with checks and fixtures, and their examples."""

import subprocess
from pathlib import Path

import pytest
from audit_support import PATTERN
from tools_support import ptxas

import ptxaudit.checks
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import ShippedCheck, check_module_name, load_registry, select_rules
from ptxaudit.errors import PatternError, UsageError
from ptxaudit.report.explain import explain, rule_table
from ptxaudit.resources import patterns_root
from ptxaudit.rules.model import Category
from ptxaudit.rules.pattern import load_pattern, load_patterns
from ptxaudit.rules.thresholds import OF_COSTS, Threshold

ROOT = Path(__file__).parent.parent
REGISTRY = load_registry()


def test_ids_are_patterns_are_checks_are_fixture_folders() -> None:
    ids = {f"{one.pattern.category}/{one.id}" for one in REGISTRY.values()}
    root = patterns_root()
    files = {str(path.relative_to(root).with_suffix("")) for path in root.rglob("*.toml")}
    folders = {
        f"{folder.parent.name}/{folder.name}"
        for folder in (ROOT / "fixtures").glob("*/*")
        if folder.is_dir() and folder.parent.name in ("correctness", "performance")
    }
    checks = {
        path.stem
        for path in Path(ptxaudit.checks.__file__ or "").parent.glob("*.py")
        if not path.stem.startswith("_") and "def check(" in path.read_text()
    }
    assert files == ids
    assert folders == ids
    assert checks == {check_module_name(rule_id).rpartition(".")[2] for rule_id in REGISTRY}


def run_example(rule_id: str, text: str, directory: Path) -> AuditRun:
    """Audit an example by its rule: as PTX, or assembled where the rule needs SASS."""
    rule = REGISTRY[rule_id]
    data = text.encode()
    if "ptx" not in rule.pattern.inputs:
        data = assemble(text, directory)
    return audit((image_of("example", data),), AuditOptions((rule,), strict=True))


def assemble(text: str, directory: Path) -> bytes:
    tool = ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    source, target = directory / "example.ptx", directory / "example.cubin"
    source.write_text(text)
    architecture = text.partition(".target")[2].split(maxsplit=1)[0].rstrip(",")
    command = [str(tool), f"-arch={architecture}", "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target.read_bytes()


@pytest.mark.parametrize("rule_id", REGISTRY)
def test_bad_example_is_reported(rule_id: str, tmp_path: Path) -> None:
    run = run_example(rule_id, REGISTRY[rule_id].pattern.example.bad, tmp_path)
    assert run.internal_errors == ()
    assert [one.error for one in run.report.inputs] == [None]
    assert {finding.rule for finding in run.report.findings} == {rule_id}


@pytest.mark.parametrize("rule_id", REGISTRY)
def test_good_example_is_clean(rule_id: str, tmp_path: Path) -> None:
    run = run_example(rule_id, REGISTRY[rule_id].pattern.example.good, tmp_path)
    assert run.internal_errors == ()
    assert [one.error for one in run.report.inputs] == [None]
    assert run.report.findings == ()
    assert "unknown" not in {verdict for one in run.report.functions for verdict in one.verdicts.values()}


@pytest.mark.parametrize("rule_id", REGISTRY)
@pytest.mark.parametrize("kind", ["bad", "good"])
def test_example_assembles(rule_id: str, kind: str, tmp_path: Path) -> None:
    assert assemble(getattr(REGISTRY[rule_id].pattern.example, kind), tmp_path)


@pytest.mark.parametrize("rule_id", REGISTRY)
def test_explain_shows_everything(rule_id: str) -> None:
    pattern = REGISTRY[rule_id].pattern
    shown = " ".join(explain(pattern).split())
    for prose in (pattern.title, pattern.rationale, pattern.trap, pattern.limits, pattern.fix.summary):
        assert " ".join(prose.split()) in shown
    assert pattern.id in rule_table([pattern])


@pytest.mark.parametrize("rule_id", REGISTRY)
def test_thresholds_are_those_that_the_check_goes_by_and_those_of_costs(rule_id: str) -> None:
    rule = REGISTRY[rule_id]
    assert isinstance(rule.check, ShippedCheck)
    of_costs = OF_COSTS if rule.pattern.category is Category.PERFORMANCE else ()
    assert tuple(rule.pattern.thresholds) == (*rule.check.thresholds, *of_costs)


def test_registry_is_in_report_order() -> None:
    keys = [(rule.pattern.category.value, rule.id) for rule in REGISTRY.values()]
    assert keys == sorted(keys)


def write(directory: Path, text: str, name: str = "tiny-rule", category: str = "correctness") -> Path:
    path = directory / category / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_whole_pattern_is_read(tmp_path: Path) -> None:
    threshold = '[thresholds.attempts]\ndefault = 3\nunit = "attempts"\nmeaning = "how\\n many"\nleast = 1'
    pattern = load_pattern(write(tmp_path, f"{PATTERN}\n{threshold}\n"))
    assert pattern.placeholders == {"number"}
    assert pattern.thresholds == {"attempts": Threshold(3, "attempts", "how many", least=1)}
    assert pattern.defaults == {"attempts": 3}
    assert [str(reference) for reference in pattern.references] == ["9.7.13.1, bar"]
    assert pattern.cost is None
    assert list(load_patterns(tmp_path)) == ["tiny-rule"]


COST = '[cost]\nfrequency = "every attempt"\nsummary = "an invalidate"\ncycles = [1, 2]\n' + "".join(
    f'[thresholds.{name}]\ndefault = 0\nunit = "cycles"\nmeaning = "how dear"\n' for name in OF_COSTS
)


def test_performance_pattern_has_a_cost(tmp_path: Path) -> None:
    text = PATTERN.replace('category = "correctness"', 'category = "performance"')
    pattern = load_pattern(write(tmp_path, f"{text}\n{COST}", category="performance"))
    assert pattern.cost is not None
    assert pattern.cost.cycles == (1, 2)
    with pytest.raises(PatternError, match="cost"):
        load_pattern(write(tmp_path, text, category="performance"))


ATTEMPTS = '[thresholds.attempts]\ndefault = 3\nunit = "attempts"\nmeaning = "how many"\n'


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "a barrier"\n', "", "'title' is a required property"),
        ('status = "stable"', 'status = "stable"\nsurprise = 1', "surprise"),
        ('severity = "warning"', 'severity = "fatal"', "severity: 'fatal'"),
        ('title = "a barrier"', "title = 7", "title: 7 is not of type 'string'"),
        ('inputs = ["ptx", "sass"]', 'inputs = ["fatbin"]', "applies-to.inputs.0"),
        ('id = "tiny-rule"', 'id = "other-rule"', "id: found other-rule"),
        ('category = "correctness"', 'category = "performance"', "category: found performance"),
        ("{number}", "{number", "message"),
        ("{number}", "{0}", "message: found '0'"),
        ("[example]", "[thresholds]\nattempts = 3\n[example]", "thresholds.attempts: 3 is not of type"),
        ("[example]", f"{ATTEMPTS}least = 4\n[example]", "thresholds.attempts.default: found 3, expected"),
        ("[example]", f"{ATTEMPTS}[example]".replace("attempts]", "least-share]"), "performance rules only"),
        ("[example]", '[cost]\nfrequency = "f"\nsummary = "s"\n[example]', "cost: found a table"),
        ("[fix]", "[fix", "tiny-rule.toml"),
        ('section = "9.7.13.1"', 'section = ""', "references.0.section"),
    ],
)
def test_faulty_pattern_names_file_and_key(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in PATTERN
    path = write(tmp_path, PATTERN.replace(old, new))
    with pytest.raises(PatternError) as raised:
        load_pattern(path)
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)


def test_select_rules_names_close_matches(tmp_path: Path) -> None:
    from audit_support import tiny_registry

    registry = tiny_registry(tmp_path)
    assert [rule.id for rule in select_rules(registry, ["tiny-rule"])] == ["tiny-rule"]
    assert [rule.id for rule in select_rules(registry, [], ["tiny-fault"])] == ["tiny-rule", "tiny-undecided"]
    with pytest.raises(UsageError, match=r"'tiny-rul'; did you mean tiny-rule"):
        select_rules(registry, ["tiny-rul"])
    with pytest.raises(UsageError, match="ptxaudit rules"):
        select_rules(registry, [], ["zzz"])
    with pytest.raises(UsageError, match="no rule left"):
        select_rules(registry, ["tiny-rule"], ["tiny-rule"])
