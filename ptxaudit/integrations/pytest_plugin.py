"""A pytest plugin: the fixture ``audit_kernels`` fails a test with the text of what an audit found.

::

    def test_gemm_is_synchronised(audit_kernels):
        compiled = gemm.warmup(..., grid=(1,))
        audit_kernels(compiled, fail_on="warning")

It takes what :func:`ptxaudit.audit` takes: a path, bytes, a compiled Triton kernel, a ``cuda.core``
``ObjectCode``, a list of these. What the project has decided about findings in its ``ptxaudit.toml`` or
``pyproject.toml``, looked for from pytest's root folder upwards, holds. Loaded by pytest through its entry
point, it imports the audit when asked.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def audit_kernels(pytestconfig: pytest.Config) -> Callable[..., Any]:
    """A function that audits kernels and returns the report, or fails the test.

    ``fail_on`` is the least severity that fails (``error``, ``warning``, ``note``, or ``never``; default that
    of the settings, else ``error``), ``fail_on_unknown`` lets an undecided verdict fail too; the other
    arguments are those of :func:`ptxaudit.audit`. ``config`` names another settings file than the nearest.
    """
    return partial(_audit_kernels, pytestconfig.rootpath)


def _audit_kernels(
    root: Path,
    kernels: object,
    *,
    fail_on: str | None = None,
    fail_on_unknown: bool = False,
    config: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Any:
    import ptxaudit
    from ptxaudit.engine.audit import is_undecided, reaches
    from ptxaudit.engine.settings import NEVER, find_settings, read_settings
    from ptxaudit.report import text
    from ptxaudit.rules.model import Severity

    settings = find_settings(root) if config is None else read_settings(Path(config))
    report = ptxaudit.audit(kernels, config=settings.path, **options)
    least = fail_on or settings.fail_on or Severity.ERROR.value
    undecided = (fail_on_unknown or settings.fail_on_unknown) and is_undecided(report)
    failing = undecided or reaches(report.findings, None if least == NEVER else Severity(least))
    unread = any(one.error is not None for one in report.inputs)
    if failing or unread:
        pytest.fail(f"{text.summary(report)}\n\n{text.render(report)}", pytrace=False)
    return report
