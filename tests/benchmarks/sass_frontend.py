"""Time of reading cubins, with events, against ``nvdisasm -json`` on the same files.

usage: sass_frontend.py CUBIN...

Prints both times (best of several, alternating) and their ratio; the time of starting Python and importing
the package is given apart.
"""

import subprocess
import sys
import time
from pathlib import Path

from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.isa.sass.events import function_events

ROUNDS = 7


def disassemble(path: Path) -> float:
    """Seconds that ``nvdisasm -json`` takes."""
    start = time.perf_counter()
    subprocess.run([find_tool("nvdisasm"), "-json", path], capture_output=True, check=True)
    return time.perf_counter() - start


def read(path: Path) -> float:
    """Seconds until every function of the cubin has its events."""
    start = time.perf_counter()
    for function in load_cubin(path.read_bytes(), path.name).functions:
        function_events(function)
    return time.perf_counter() - start


def start_up() -> float:
    """Seconds that a new interpreter takes to import the front end."""
    program = "import ptxaudit.frontends.sass, ptxaudit.isa.sass.events"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - start


def main(arguments: list[str]) -> int:
    """Print a line per cubin."""
    print(f"start and import: {min(start_up() for _ in range(3)):.3f} s")
    for path in map(Path, arguments):
        times = [(disassemble(path), read(path)) for _ in range(ROUNDS)]
        tool, ours = (min(column) for column in zip(*times, strict=True))
        print(f"{path.name}: nvdisasm {tool:.3f} s, ptxaudit {ours:.3f} s, ratio {ours / tool:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
