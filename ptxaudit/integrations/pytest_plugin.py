"""A pytest plugin: the fixture ``audit_kernels`` fails a test with the text of what an audit found.

::

    def test_gemm_is_synchronised(audit_kernels):
        compiled = gemm.warmup(..., grid=(1,))
        audit_kernels(compiled, fail_on="warning")

It takes what :func:`ptxaudit.audit` takes: a path, bytes, a compiled Triton kernel, a ``cuda.core``
``ObjectCode``, a list of these. Loaded by pytest through its entry point, it imports the audit when asked.
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def audit_kernels() -> Callable[..., Any]:
    """A function that audits kernels and returns the report, or fails the test.

    ``fail_on`` is the least severity that fails (``error``, ``warning``, ``note``), ``fail_on_unknown`` lets
    an undecided verdict fail too; the other arguments are those of :func:`ptxaudit.audit`.
    """
    return _audit_kernels


def _audit_kernels(
    kernels: object, *, fail_on: str = "error", fail_on_unknown: bool = False, **options: Any
) -> Any:
    import ptxaudit
    from ptxaudit.engine.audit import is_undecided, reaches
    from ptxaudit.report import text
    from ptxaudit.rules.model import Severity

    report = ptxaudit.audit(kernels, **options)
    failing = reaches(report.findings, Severity(fail_on)) or (fail_on_unknown and is_undecided(report))
    unread = any(one.error is not None for one in report.inputs)
    if failing or unread:
        pytest.fail(f"{text.summary(report)}\n\n{text.render(report)}", pytrace=False)
    return report
