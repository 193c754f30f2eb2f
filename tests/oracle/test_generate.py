"""Random programs: the oracle's answers agree with each other and with a search; the PTX assembles."""

import importlib.util
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from .events import Scope
from .generate import generate
from .lowering import Reading
from .program import (
    AwaitFlag,
    BarrierSync,
    Fence,
    Instruction,
    MbarrierArrive,
    MbarrierWait,
    Program,
    ProgramError,
    Store,
    Thread,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)
from .questions import candidates, deadlocks, ordered, races
from .render import render, to_ptx
from .schedules import schedules
from .test_programs import program

SEEDS = range(300)


def strengthen(instruction: Instruction) -> Instruction:
    """The instruction with the widest scope that it can have, and acquire or release semantics."""
    match instruction:
        case Store(semantics="weak"):
            return instruction
        case Store():
            return replace(instruction, semantics="release", scope=Scope.SYS)
        case AwaitFlag(semantics="weak"):
            return instruction
        case AwaitFlag():
            return replace(instruction, semantics="acquire", scope=Scope.SYS)
        case Fence(restrict=None, semantics="acq_rel"):
            return replace(instruction, scope=Scope.SYS)
        case MbarrierArrive():
            return replace(instruction, semantics="release", scope=Scope.CLUSTER)
        case MbarrierWait():
            return replace(instruction, semantics="acquire", scope=Scope.CLUSTER)
    return instruction


def test_generator_is_deterministic_and_varied() -> None:
    assert generate(7) == generate(7)
    programs = {generate(seed) for seed in SEEDS}
    assert len(programs) > 0.8 * len(SEEDS)
    kinds = {type(i).__name__ for p in programs for thread in p.threads for i in thread.instructions}
    assert len(kinds) >= 22
    racy = sum(bool(races(p)) for p in programs)
    stuck = sum(deadlocks(p) for p in programs)
    assert 0.2 * len(programs) < racy < 0.8 * len(programs)
    assert 0.02 * len(programs) < stuck < 0.5 * len(programs)


def test_what_a_schedule_can_do_is_a_candidate() -> None:
    for seed in SEEDS:
        p = generate(seed)
        whole = [c for c in candidates(p) if {o for o in c.skeleton.owner if o} >= {o for o in _acting(p)}]
        if schedules(p).ends:
            assert whole, f"seed {seed}"


def _acting(p: Program) -> set[tuple[int, int]]:
    """The instructions that have events (a commit has none)."""
    return {
        (number, position)
        for number, thread in enumerate(p.threads)
        for position, instruction in enumerate(thread.instructions)
        if "Commit" not in type(instruction).__name__
    }


def test_racing_instructions_are_not_ordered() -> None:
    for seed in SEEDS:
        p = generate(seed)
        for first, second in races(p):
            assert not ordered(p, first, second), f"seed {seed}"
            assert not ordered(p, second, first), f"seed {seed}"


def test_stronger_synchronisation_never_adds_a_race() -> None:
    for seed in SEEDS:
        p = generate(seed)
        stronger = replace(
            p,
            threads=tuple(Thread(t.cta, tuple(map(strengthen, t.instructions))) for t in p.threads),
        )
        assert races(stronger) <= races(p), f"seed {seed}"


def test_readings_only_move_in_their_direction() -> None:
    for seed in SEEDS:
        p = generate(seed)
        assert races(p, Reading(cumulative_phases=True)) <= races(p), f"seed {seed}"
        assert races(p) <= races(p, Reading(read_before_write_needs_proxy_fence=True)), f"seed {seed}"


def test_lines_name_the_instructions() -> None:
    p = program([Store("x", value=7), BarrierSync(0, 2)], [BarrierSync(0, 2), MbarrierWait("m", 1)])
    with pytest.raises(ProgramError, match="never initialised"):
        render(p)
    rendering = render(generate(14))
    assert set(rendering.lines.values()) >= _acting(generate(14))
    text = rendering.text.splitlines()
    stores = [n for n, line in enumerate(text, 1) if "st.global" in line and "%r3" not in line]
    assert all(n in rendering.lines for n in stores)


def _ptxas() -> str | None:
    found = shutil.which("ptxas")
    if found is None:
        spec = importlib.util.find_spec("nvidia")
        roots = list(spec.submodule_search_locations or ()) if spec else []
        beside = (Path(root) / "cu13" / "bin" / "ptxas" for root in roots)
        found = next((str(path) for path in beside if path.is_file()), None)
    return found


def test_ptx_assembles(tmp_path: Path) -> None:
    ptxas = _ptxas()
    if ptxas is None:
        pytest.skip("no ptxas")
    wgmma: list[Instruction] = [Wgmma(("s", "t")), WgmmaCommit(), WgmmaWait(0), BarrierSync(0, 2)]
    programs = [generate(seed) for seed in range(25)]
    programs.append(program(wgmma, [BarrierSync(0, 2, aligned=False), Store("s")]))
    for number, p in enumerate(programs):
        source = tmp_path / f"{number}.ptx"
        source.write_text(to_ptx(p))
        command = [ptxas, "-arch=sm_90a", "-o", str(tmp_path / "out"), str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"program {number}: {result.stderr}"
