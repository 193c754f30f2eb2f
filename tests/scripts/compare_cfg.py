"""Compare the front end's control-flow graphs with those that ``nvdisasm -bbcfg -poff`` draws.

usage: compare_cfg.py PATH...   (cubins, or folders of cubins)

Only edges that are no fall-through count: nvdisasm also splits straight-line code at every
synchronisation. It draws no graph for some cubins (older containers); those are counted apart.
Exit status 1 when any edge differs.
"""

import re
import subprocess
import sys
from pathlib import Path

from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.ir.function import Module

INSTRUCTION_BYTES = 16
Edge = tuple[str, int, int]

_NODE = re.compile(r'^"((?:[^"\\]|\\.)*)"\n\[label="\{(.*?)\}"\]', re.MULTILINE | re.DOTALL)
_EDGE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\w+):\w+ -> "((?:[^"\\]|\\.)*)":\w+:\w+ ', re.MULTILINE)
_PORT = re.compile(r"<(\w+)>(.*?)(?=\|<|$)", re.DOTALL)
_OFFSET = re.compile(r"(?:^|\\l)([0-9a-f]{4,}):\\ ")
_CLUSTER = re.compile(r'^subgraph "cluster_(.*?)" \{', re.MULTILINE)


def drawn_edges(dot: str, section_of: dict[str, str]) -> frozenset[Edge]:
    """The edges of a drawing that are no fall-through: section, offset of the jump, offset of its target."""
    edges: set[Edge] = set()
    pieces = _CLUSTER.split(dot)
    for section, body in zip(pieces[1::2], pieces[2::2], strict=True):
        nodes = {
            name: {port: [int(o, 16) for o in _OFFSET.findall(text)] for port, text in _PORT.findall(label)}
            for name, label in _NODE.findall(body)
        }
        for source, port, target in _EDGE.findall(body):
            start = nodes[source][port][-1]
            end = min(offset for offsets in nodes[target].values() for offset in offsets)
            if end != start + INSTRUCTION_BYTES:
                edges.add((section_of.get(section, section), start, end))
    return frozenset(edges)


def module_edges(module: Module, section_of: dict[str, str]) -> frozenset[Edge]:
    """The same edges from the front end's graph; ``section_of`` names the section of each function."""
    edges: set[Edge] = set()
    for function in module.functions:
        for block in function.blocks:
            last = block.end_position - INSTRUCTION_BYTES
            for successor in block.successors:
                start = function.blocks[successor].start_position
                if start != block.end_position:
                    edges.add((section_of[function.name], last, start))
    return frozenset(edges)


def section_names(module: Module) -> dict[str, str]:
    """The section of each function: the kernel's that stands before it when it shares that one's code."""
    names: dict[str, str] = {}
    current = ""
    for function in module.functions:
        if not function.blocks or function.blocks[0].start_position == 0:
            current = function.name
        names[function.name] = current
    return names


def draw(path: Path) -> str | None:
    """What nvdisasm draws for a cubin, ``None`` when it refuses to."""
    command = [find_tool("nvdisasm"), "-bbcfg", "-poff", path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return run.stdout if run.returncode == 0 else None


def compare(path: Path) -> tuple[frozenset[Edge], frozenset[Edge]] | None:
    """nvdisasm's edges and ours; ``None`` when nvdisasm draws nothing."""
    dot = draw(path)
    if dot is None:
        return None
    module = load_cubin(path.read_bytes(), path.name)
    sections = section_names(module)
    return drawn_edges(dot, sections), module_edges(module, sections)


def main(arguments: list[str]) -> int:
    """Print one line per cubin that differs, and the totals."""
    paths = [Path(argument) for argument in arguments]
    cubins = [file for path in paths for file in (sorted(path.rglob("*.cubin")) if path.is_dir() else [path])]
    equal = different = undrawn = edges = 0
    for cubin in cubins:
        graphs = compare(cubin)
        if graphs is None:
            undrawn += 1
            continue
        drawn, ours = graphs
        edges += len(drawn)
        if drawn == ours:
            equal += 1
            continue
        different += 1
        for title, some in (("only nvdisasm", drawn - ours), ("only ptxaudit", ours - drawn)):
            for section, start, end in sorted(some)[:10]:
                print(f"{cubin.name}: {title}: {section}+{start:#x} -> {end:#x}")
    print(f"{equal} equal, {different} different, {undrawn} not drawn by nvdisasm, {edges} edges compared")
    return 1 if different or not equal else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
