"""A store of results on disk: a SQLite file that several processes may use at once.

SQLite keeps a file whole whatever ends a process. What cannot be read (a damaged row, a file that is no
database) is not there; what cannot be written is not kept, and ``trouble`` then says so once. No audit fails
for want of its store.
"""

import contextlib
import hashlib
import sqlite3
import time
import zlib
from pathlib import Path

from ptxaudit.errors import system_reason

DEFAULT_MEGABYTES = 512
# How many bytes something kept may stand for: a file of others may say that it is gigabytes. The largest of a
# real kernel was 1 MB.
MOST_BYTES = 1 << 25
_FILE = "results.sqlite"
_WAIT_SECONDS = 10.0
_BUSY_SECONDS = 0.02
_KEPT_SHARE = 0.9
_WRITES_BETWEEN_CHECKS = 200
# Beyond this nothing was used so lately that its place in the order of use matters to anyone.
_SAME_USE_SECONDS = 3600
# What a damaged file brings about: names in it need not be text, either.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
_TABLE = """
CREATE TABLE IF NOT EXISTS results (
  key TEXT PRIMARY KEY,
  digest BLOB NOT NULL,
  content BLOB NOT NULL,
  size INTEGER NOT NULL,
  used INTEGER NOT NULL
) WITHOUT ROWID
"""


class ResultStore:
    """Bytes by key, the longest unused dropped when they exceed ``megabytes`` in all."""

    def __init__(self, folder: Path, megabytes: int = DEFAULT_MEGABYTES) -> None:
        self._file = folder / _FILE
        self._most = megabytes << 20
        self._writes = 0
        self.trouble: str | None = None
        self._connection = self._opened()

    def get(self, key: str) -> bytes | None:
        """What was put under a key, ``None`` where it is not there whole."""
        if self._connection is None:
            return None
        try:
            row = self._connection.execute(
                "SELECT digest, content, used FROM results WHERE key = ?", (key,)
            ).fetchone()
        except _FAULTS as error:
            self._failed(error)
            return None
        content = None if row is None else _unpacked(*row[:2])
        if row is not None and content is None:
            self._write("DELETE FROM results WHERE key = ?", (key,))
        elif row is not None and time.time() - row[2] > _SAME_USE_SECONDS:
            self._write("UPDATE results SET used = ? WHERE key = ?", (int(time.time()), key))
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep something under a key; on a disk that does not take it, do nothing."""
        if len(content) > MOST_BYTES:
            return
        packed = zlib.compress(content)
        row = (key, _digest(packed), packed, len(packed), int(time.time()))
        if not self._write("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", row):
            return
        self._writes += 1
        if self._writes % _WRITES_BETWEEN_CHECKS == 1:
            self._shrink()

    def close(self) -> None:
        """End the use of the file."""
        if self._connection is not None:
            if self._writes:
                self._shrink()
            with contextlib.suppress(*_FAULTS):
                self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection | None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                return _connected(self._file)
            except _FAULTS as error:
                if not _is_damaged(error):
                    raise
                self._remove()
                return _connected(self._file)
        except (*_FAULTS, OSError) as error:
            self._note(error)
            return _connected_to_read(self._file) if _is_sealed(error) else None

    def _failed(self, error: Exception) -> None:
        """Start anew where the file is damaged: what is in it cannot be of use to anyone.

        Not where nothing is kept anyway: what is read as it stands may be about to be written by others.
        """
        if self._connection is None or self.trouble is not None or not _is_damaged(error):
            self._note(error)
            return
        with contextlib.suppress(*_FAULTS):
            self._connection.close()
        self._connection = None
        try:
            self._remove()
        except OSError as reason:
            self._note(reason)
        else:
            self._connection = self._opened()

    def _remove(self) -> None:
        for name in (_FILE, f"{_FILE}-wal", f"{_FILE}-shm"):
            self._file.with_name(name).unlink(missing_ok=True)

    def _write(self, statement: str, values: tuple[object, ...]) -> bool:
        if self._connection is None or self.trouble is not None:
            return False
        try:
            self._connection.execute(statement, values)
        except _FAULTS as error:
            # What is there already can still be read.
            self._failed(error)
            return False
        return True

    def _shrink(self) -> None:
        """Drop the longest unused results until there is room again."""
        if self._connection is None or self.trouble is not None:
            return
        try:
            (size,) = self._connection.execute("SELECT coalesce(sum(size), 0) FROM results").fetchone()
            if size <= self._most:
                return
            room = int(self._most * _KEPT_SHARE)
            self._connection.execute(
                "DELETE FROM results WHERE key IN (SELECT key FROM (SELECT key,"
                " sum(size) OVER (ORDER BY used DESC, key) AS upto FROM results) WHERE upto > ?)",
                (room,),
            )
        except _FAULTS as error:
            self._failed(error)

    def _note(self, error: Exception) -> None:
        reason = system_reason(error) if isinstance(error, OSError) else " ".join(str(error).split())
        self.trouble = self.trouble or f"{self._file}: results are not kept: {reason}"


def _connected(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_WAIT_SECONDS, isolation_level=None)
    try:
        # A log beside the file lets others read while one writes. What a crash of the machine loses is
        # audited again, so nothing waits for the disk.
        _log_beside(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_TABLE)
    except _FAULTS:
        connection.close()
        raise
    return connection


def _connected_to_read(file: Path) -> sqlite3.Connection | None:
    """A store that cannot be written, as one that CI restored for all its jobs; ``None`` where there is none.

    It is read as it stands, since SQLite would have to write to follow its log. What another process changes
    meanwhile shows in a row's digest at the latest.
    """
    if not file.is_file():
        return None
    try:
        return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    except _FAULTS:
        return None


def _log_beside(connection: sqlite3.Connection) -> None:
    """Have changes written to a log; where others open the same new file, SQLite does not wait by itself."""
    latest = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > latest:
                raise
            time.sleep(_BUSY_SECONDS)


def _is_damaged(error: Exception) -> bool:
    """Whether a file is no database or not a whole one; errors of the system are of a class of their own."""
    return type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)


def _is_sealed(error: Exception) -> bool:
    """Whether a file may not be written, or not the log beside it."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    return isinstance(error, OSError)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _unpacked(digest: object, content: object) -> bytes | None:
    if not isinstance(content, bytes) or _digest(content) != digest:
        return None
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(content, MOST_BYTES)
    except zlib.error:
        return None
    return whole if unpacking.eof else None
