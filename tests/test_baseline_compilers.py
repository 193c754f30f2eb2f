"""A baseline that was made with one compiler knows the findings of the same kernel built by another."""

from functools import cache
from pathlib import Path

import pytest

from ptxaudit.api import audit
from ptxaudit.engine.baseline import entry_of, match
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.rules.model import Finding

FOLDER = Path(__file__).parent.parent / "fixtures" / "compilers"
# With the rule that finds something, so that the others need not be asked.
KERNELS = {
    "ring": "mbarrier-expect-tx-without-arrive",
    "dsl_no_barrier": "mbarrier-init-unpublished",
    "dsl_ring": "wait-depth-too-conservative",
}


def cubin(kernel: str, release: str) -> Path:
    return FOLDER / f"{kernel}.ptxas{release}.cubin"


@cache
def findings(kernel: str, release: str) -> tuple[Finding, ...]:
    return audit(cubin(kernel, release), select=[KERNELS[kernel]]).findings


def instructions(kernel: str, release: str) -> list[str]:
    module = load_cubin(cubin(kernel, release).read_bytes(), kernel)
    return [one.text for function in module.functions for one in function.instructions]


@pytest.mark.parametrize("release", ["13.4", "13.5"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_baseline_of_another_compiler_knows_the_findings(kernel: str, release: str) -> None:
    known = [entry_of(finding) for finding in findings(kernel, "13.0")]
    assert known
    matched = match(findings(kernel, release), known)
    assert len(matched.known) == len(findings(kernel, release))
    assert matched.gone == ()
    # The fingerprints themselves are the same, so that code scanning knows them, too.
    assert sorted(one.fingerprint for one in findings(kernel, release)) == sorted(
        entry.fingerprint for entry in known
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_code_is_not_the_same(kernel: str) -> None:
    assert instructions(kernel, "13.0") != instructions(kernel, "13.5")
