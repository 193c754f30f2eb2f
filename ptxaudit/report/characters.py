"""Characters that cannot be seen or that reorder text, replaced by visible ones."""

import re
from collections.abc import Mapping

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def visible(text: str) -> str:
    """The text with every character that cannot be seen replaced by one that can."""
    return _INVISIBLE.sub(_picture, text)


def seen(value: object) -> object:
    """``visible`` of every text in a value made of mappings, lists and plain values."""
    if isinstance(value, str):
        return visible(value.replace("\r\n", "\n"))
    if isinstance(value, Mapping):
        # A name that is a key is also looked up by the page as it is shown.
        return {visible(key) if isinstance(key, str) else key: seen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [seen(item) for item in value]
    return value


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
