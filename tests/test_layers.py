"""Holds the layers: who may import whom, who may print, exit or read files."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ptxaudit

PACKAGE = Path(ptxaudit.__file__).parent
LAYERS = (
    ("source", "errors", "printable", "limits", "stopwatch", "words"),
    ("resources", "schema"),
    ("arch",),
    ("ir",),
    ("isa",),
    ("frontends",),
    ("analysis",),
    ("rules",),
    ("checks",),
    ("cost",),
    ("engine",),
    ("report",),
    ("intake",),
    ("api",),
    ("integrations",),
    ("commands", "progress", "options"),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
FORBIDDEN_IN_REPORTS = ("ir", "isa", "frontends", "analysis")
FILE_MODULES = {"io", "os", "pathlib", "shutil", "subprocess", "tempfile", "importlib"}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def layer(name: str) -> str:
    return name.partition(".")[0]


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it, as an absolute name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            assert node.module is not None
            yield node.module
            if node.module == "ptxaudit":
                yield from (f"ptxaudit.{alias.name}" for alias in node.names)


def internal(path: Path) -> list[str]:
    names = [name.removeprefix("ptxaudit.") for name in imported(path) if name.startswith("ptxaudit.")]
    return [name for name in names if layer(name) in RANK]


def calls(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_only_from_layers_above(path: Path) -> None:
    own = layer(module_name(path))
    assert own in RANK, f"{own} has no layer"
    below = [name for name in internal(path) if RANK[layer(name)] > RANK[own]]
    assert not below, f"{module_name(path)} imports from below: {below}"


@pytest.mark.parametrize("library", ["jinja2", "elftools", "graphlay", "jsonschema", "rich"])
def test_library_is_imported_in_one_place(library: str) -> None:
    users = [module_name(path) for path in MODULES if library in {layer(name) for name in imported(path)}]
    assert len(users) == 1, users


def test_click_is_known_to_the_command_line_only() -> None:
    users = {module_name(path) for path in MODULES if "click" in {layer(name) for name in imported(path)}}
    assert users == {"cli", "options"}


@pytest.mark.parametrize("path", [p for p in MODULES if module_name(p) != "cli"], ids=module_name)
def test_only_the_command_line_prints_or_exits(path: Path) -> None:
    speaking = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"}
    assert [f"{name}:{line}" for name, line in calls(path) if name in speaking] == []
    raised = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc)
    ]
    assert raised == []


@pytest.mark.parametrize("path", [p for p in MODULES if layer(module_name(p)) == "report"], ids=module_name)
def test_reports_see_no_ir(path: Path) -> None:
    assert [name for name in internal(path) if layer(name) in FORBIDDEN_IN_REPORTS] == []


def test_checks_read_no_files() -> None:
    checks = [path for path in MODULES if layer(module_name(path)) == "checks"]
    for path in checks:
        assert not FILE_MODULES & {layer(name) for name in imported(path)}, path
        assert "open" not in {name for name, _ in calls(path)}, path


def test_modules_say_what_they_are() -> None:
    for path in MODULES:
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"
