"""What a command does not need is not loaded: start-up is most of the time of a small audit."""

import subprocess
import sys
from pathlib import Path

from ptxaudit.engine.image import KernelImage
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images, started_early

CUBIN = Path(__file__).parent.parent / "fixtures" / "cubin" / "mailbox.sm_90a.cubin"
RARELY_NEEDED = {
    "elftools",
    "jinja2",
    "jsonschema",
    "multiprocessing.spawn",
    "numpy",
    "ptxaudit.analysis.order.machine",
    "ptxaudit.frontends.ptx.parser",
    "ptxaudit.report.html",
    "rich",
}


def loaded_after(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded once the program has run."""
    report = "\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    command = [sys.executable, "-c", program + report]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_command_line_loads_little() -> None:
    loaded = loaded_after("import ptxaudit.cli")
    assert "click" in loaded
    assert loaded & (RARELY_NEEDED | {"rustworkx"}) == set()


def test_an_audit_of_a_cubin_by_local_rules_loads_only_what_it_uses() -> None:
    arguments = ["ptxaudit", "audit", str(CUBIN), "--select", "gpu-membar-in-hot-loop"]
    program = f"import sys; sys.argv = {arguments}\nfrom ptxaudit.cli import cli\ncli(standalone_mode=False)"
    loaded = loaded_after(program)
    assert {"ptxaudit.checks.gpu_membar_in_hot_loop", "rustworkx"} <= loaded
    assert loaded & RARELY_NEEDED == set()


def test_a_lone_cubin_is_disassembled_early_and_cleaned_up() -> None:
    with started_early(find_images([str(CUBIN)], WalkOptions())) as images:
        (image,) = images
        assert isinstance(image, KernelImage)
        assert image.started is not None
        directory = Path(image.started._directory.name)
        assert directory.is_dir()
        assert image.content == CUBIN.read_bytes()
        assert b"CCTL" in image.started.output()
    assert not directory.exists()


def test_other_inputs_are_left_as_they_are(tmp_path: Path) -> None:
    broken = tmp_path / "broken.cubin"
    broken.write_bytes(CUBIN.read_bytes()[:100])
    for arguments in ([str(broken)], [str(CUBIN), str(broken)], [str(tmp_path / "missing.cubin")], []):
        expected = list(find_images(arguments, WalkOptions()))
        with started_early(find_images(arguments, WalkOptions())) as images:
            assert list(images) == expected
