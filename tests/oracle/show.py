"""Print a random program as PTX, with the oracle's answers, to look at one seed by hand.

python -m tests.oracle.show SEED
"""

import sys

from .generate import generate
from .questions import deadlocks, races, undefined
from .render import render


def main(arguments: list[str]) -> int:
    """Print the program of a seed."""
    program = generate(int(arguments[0]))
    rendering = render(program)
    for number, line in enumerate(rendering.text.splitlines(), 1):
        name = rendering.lines.get(number)
        print(f"{'' if name is None else f'{name[0]}.{name[1]}':>5}  {line}")
    pairs = [f"{a[0]}.{a[1]} with {b[0]}.{b[1]}" for a, b in sorted(races(program))]
    print("races:", ", ".join(pairs) or "none")
    print("deadlocks:", deadlocks(program), " undefined behaviour:", undefined(program))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
