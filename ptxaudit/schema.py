"""Checks a document against a JSON schema: the only place that imports jsonschema."""

from collections.abc import Mapping
from typing import Any


def schema_fault(schema: Mapping[str, Any], document: object) -> str | None:
    """The most telling fault of a document as ``key: what is wrong``, or ``None`` when it is valid."""
    # Loading the library takes longer than a small audit; most runs come here late or not at all.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    fault = best_match(Draft202012Validator(schema).iter_errors(document))
    if fault is None:
        return None
    key = ".".join(str(part) for part in fault.absolute_path) or "top level"
    return f"{key}: {fault.message}"
