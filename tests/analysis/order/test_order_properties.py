"""What must hold of the order engine for every program: more synchronisation, fewer findings; any names."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from oracle import program as op
from oracle.compare import EngineAnswer, ask_engine
from oracle.events import Scope
from oracle.generate import generate
from oracle.program import EventId, Program
from oracle.questions import undefined
from oracle.render import Rendering, render

FIXTURES = Path(__file__).parents[3] / "fixtures" / "correctness"
SOME = sorted(
    path
    for rule in ("mbarrier-phase-alias", "shared-memory-race", "wgmma-stage-released-early")
    for path in list(sorted((FIXTURES / rule).glob("*.ptx")))[:4]
)
SEEDS = range(1000, 1060)
Ids = dict[EventId, EventId]


def settled(answer: EngineAnswer) -> bool:
    """Whether the answer is about races alone: complete, and with every phase the one that is meant."""
    return answer.unknown is None and not answer.alias and not answer.deadlock


def identity(program: Program) -> Ids:
    return {(t, i): (t, i) for t, code in enumerate(program.threads) for i in range(len(code.instructions))}


def replaced(program: Program, thread: int, code: list[op.Instruction]) -> Program:
    threads = list(program.threads)
    threads[thread] = replace(threads[thread], instructions=tuple(code))
    return replace(program, threads=tuple(threads))


def without(program: Program, thread: int, place: int) -> tuple[Program, Ids]:
    """The program less one instruction, and where the others are then."""
    code = list(program.threads[thread].instructions)
    del code[place]
    others = (name for name in identity(program) if name != (thread, place))
    moved = {(t, i): (t, i - (t == thread and i > place)) for t, i in others}
    return replaced(program, thread, code), moved


def with_barrier(program: Program, cut: int) -> tuple[Program, Ids]:
    """One more barrier for all threads of CTA 0, in each after its first `cut` instructions at the most."""
    members = [number for number, thread in enumerate(program.threads) if thread.cta == 0]
    moved: Ids = {}
    for number, thread in enumerate(program.threads):
        code = list(thread.instructions)
        at = min(cut, len(code)) if number in members else len(code) + 1
        moved.update({(number, i): (number, i + (i >= at)) for i in range(len(code))})
        if number in members:
            code.insert(at, op.BarrierSync(15, len(members)))
            program = replaced(program, number, code)
    return program, moved


def never_more(fewer: Program, more: Program, moved: Ids) -> bool:
    """Whether `more`, which synchronises more, has no race that `fewer` lacks; False if it says nothing."""
    if undefined(fewer) or undefined(more):
        return False
    weak, strong = ask_engine(render(fewer)), ask_engine(render(more))
    if not (settled(weak) and settled(strong)):
        return False
    back = {new: old for old, new in moved.items()}
    carried = {tuple(sorted((back[a], back[b]))) for a, b in strong.races if a in back and b in back}
    assert carried <= weak.races
    return True


@pytest.mark.parametrize("cut", [0, 2, 5])
def test_a_barrier_more_adds_no_race(cut: int) -> None:
    told = 0
    for seed in SEEDS:
        program = generate(seed)
        more, moved = with_barrier(program, cut)
        told += never_more(program, more, moved)
    assert told > 5


@pytest.mark.parametrize("kind", [op.Fence, op.ProxyFence])
def test_a_fence_less_removes_no_race(kind: type) -> None:
    told = 0
    for seed in SEEDS:
        program = generate(seed)
        places = [
            (t, i) for t, i in identity(program) if isinstance(program.threads[t].instructions[i], kind)
        ]
        for thread, place in places:
            fewer, moved = without(program, thread, place)
            told += never_more(fewer, program, {new: old for old, new in moved.items()})
    assert told > 2


@pytest.mark.parametrize("kind", [op.Fence, op.Store, op.AwaitFlag, op.MbarrierArrive, op.MbarrierWait])
def test_a_wider_scope_adds_no_race(kind: type) -> None:
    told = 0
    for seed in SEEDS:
        program = generate(seed)
        for thread, place in identity(program):
            code = list(program.threads[thread].instructions)
            instruction = code[place]
            if not isinstance(instruction, kind) or getattr(instruction, "restrict", None):
                continue
            if getattr(instruction, "semantics", "weak") == "weak":
                continue
            of_mbarrier = isinstance(instruction, op.MbarrierArrive | op.MbarrierWait)
            code[place] = replace(instruction, scope=Scope.CLUSTER if of_mbarrier else Scope.SYS)
            told += never_more(program, replaced(program, thread, code), identity(program))
    assert told > 5


def found(text: str) -> list[tuple[str, str]]:
    """The races and aliases in a PTX text by the spelling of their lines without register names."""
    answer = ask_engine(Rendering(text, {}))
    lines = text.splitlines()

    def spelt(line: int | None) -> str:
        return re.sub(r"%\w+", "%", lines[(line or 1) - 1]).strip()

    pairs = [
        (spelt(r.first.step.instruction.location.line), spelt(r.second.step.instruction.location.line))
        for r in answer.report.races
    ]
    aliases = [("alias", spelt(a.step.instruction.location.line)) for a in answer.report.aliases]
    return sorted(pairs + aliases)


def renamed(text: str) -> str:
    """The same PTX with other names for its declared registers (special ones are declared nowhere)."""
    declared = re.findall(r"%(\w+)(<\d+>)?(?=\s*[,;])", " ".join(re.findall(r"(?m)^\s*\.reg[^;]*;", text)))
    names = "|".join(name + (r"\d+" if many else "") for name, many in declared)
    families = "|".join(name for name, many in declared if many) or "none"
    return re.sub(rf"%(?=(?:{names})\b|(?:{families})<)", "%new_", text)


@pytest.mark.parametrize("path", SOME, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_names_of_registers_do_not_matter_in_fixtures(path: Path) -> None:
    text = path.read_text()
    assert renamed(text) != text
    assert found(renamed(text)) == found(text)


@pytest.mark.parametrize("seed", range(1000, 1015))
def test_names_and_the_order_of_independent_instructions_do_not_matter(seed: int) -> None:
    text = render(generate(seed)).text
    expected = found(text)
    assert found(renamed(text)) == expected
    one, other = "    mov.u32 %r3, 0;\n", "    setp.eq.u32 %p0, %r2, 0;\n"
    assert other + one in text
    assert found(text.replace(other + one, one + other)) == expected


@pytest.mark.parametrize("seed", range(1000, 1015))
def test_the_order_of_the_roles_in_the_text_does_not_matter(seed: int) -> None:
    text = render(generate(seed)).text
    head, *bodies = re.split(r"(?m)^(?=T\d:)", text)
    bodies[-1], rest = bodies[-1].split("DONE:\n")
    turned = head + "".join(reversed(bodies)) + "DONE:\n" + rest
    assert turned != text
    assert {frozenset(pair) for pair in found(turned)} == {frozenset(pair) for pair in found(text)}
