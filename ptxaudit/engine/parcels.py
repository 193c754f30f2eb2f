"""What processes of one machine hand to each other: through a pipe goes only what is written in one piece.

A process that is killed while it writes more than that to a pipe leaves the start of a message there, and
who reads it waits for the rest, without end where others may still write. One that is killed while it reads
leaves those waiting that write. What is larger goes through a file, of which the pipe says where it is.
"""

import pickle
import select
from pathlib import Path
from typing import Any

# The pipe's own message is around it.
_IN_ONE_PIECE = select.PIPE_BUF // 2

Parcel = bytes | Path
"""A pickled value, or the file that it is in."""


def packed(value: object, place: Path) -> Parcel:
    """``value`` for another process: in the file ``place``, unless it is small or the file has no room."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    if len(content) <= _IN_ONE_PIECE:
        return content
    try:
        place.write_bytes(content)
    except OSError:
        return content
    return place


def opened(parcel: Parcel) -> Any:
    """The value; who made the parcel must be trusted with running code."""
    return pickle.loads(parcel if isinstance(parcel, bytes) else parcel.read_bytes())
