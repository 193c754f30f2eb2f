"""The store on disk: whole or not there, whatever happened to the file or the process."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from ptxaudit.engine import store as store_module
from ptxaudit.engine.store import ResultStore

FILE = "results.sqlite"
WRITER = """
import sys
from pathlib import Path
from ptxaudit.engine.store import ResultStore
store = ResultStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    store.put(f"{sys.argv[2]}{number}", f"content {number}".encode() * 100)
    print(number, flush=True)
store.close()
"""


def writer(folder: Path, prefix: str, number: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WRITER, str(folder), prefix, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_what_is_put_is_there_for_the_next_one(tmp_path: Path) -> None:
    first = ResultStore(tmp_path / "new" / "folder")
    assert first.get("key") is None
    first.put("key", b"content")
    first.put("key", b"other content")
    first.close()
    second = ResultStore(tmp_path / "new" / "folder")
    assert second.get("key") == b"other content"
    assert second.get("another") is None
    assert second.trouble is None
    second.close()


@pytest.mark.parametrize("column", ["content", "digest"])
def test_a_damaged_row_is_not_there(column: str, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put("key", b"content")
    store.put("sound", b"sound")
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"UPDATE results SET {column} = x'00ff' WHERE key = 'key'")
    connection.close()
    assert store.get("key") is None
    assert store.get("sound") == b"sound"
    store.put("key", b"again")
    assert store.get("key") == b"again"
    assert store.trouble is None
    store.close()


@pytest.mark.parametrize("damage", ["garbage", "tail", "empty"])
def test_a_damaged_file_is_begun_anew(damage: str, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    for number in range(200):
        store.put(f"key {number}", str(number).encode() * 1000)
    store.close()
    path = tmp_path / FILE
    content = path.read_bytes()
    damaged = {"garbage": b"no database " * 1000, "tail": content[:4096] + b"\xff" * 20000, "empty": b""}
    path.write_bytes(damaged[damage])
    for _ in range(2):
        store = ResultStore(tmp_path)
        for number in range(200):
            assert store.get(f"key {number}") in (None, str(number).encode() * 1000)
        store.put("new", b"new")
        assert store.trouble is None
        store.close()
    store = ResultStore(tmp_path)
    assert store.get("new") == b"new"
    store.close()


def test_a_folder_that_cannot_be_made_is_one_line_of_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = ResultStore(tmp_path / "file" / "folder")
    store.put("key", b"content")
    assert store.get("key") is None
    assert store.trouble is not None
    assert "results are not kept" in store.trouble and "\n" not in store.trouble
    store.close()


def test_a_full_disk_keeps_what_is_there(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.put("key", b"content")
    assert store._connection is not None
    store._connection.execute("PRAGMA max_page_count = 4")
    store.put("large", bytes(range(256)) * 1000 + sys.version.encode() * 9999)
    for number in range(50):
        store.put(str(number), b"".join(bytes([number, i % 251, i % 13]) for i in range(3000)))
    assert store.trouble is not None and "full" in store.trouble
    assert store.get("key") == b"content"
    store.close()


def test_a_file_that_only_can_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(tmp_path)
    store.put("key", b"content")
    store.close()

    def read_only(file: Path) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)

    monkeypatch.setattr(store_module, "_connected", read_only)
    store = ResultStore(tmp_path)
    assert store.get("key") == b"content"
    assert store.trouble is None
    store.put("new", b"new")
    assert store.trouble is not None and "readonly" in store.trouble
    assert store.get("key") == b"content"
    store.close()


def test_a_store_that_cannot_be_opened_for_writing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore(tmp_path)
    store.put("key", b"content")
    store.close()

    def sealed(file: Path) -> sqlite3.Connection:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        raise error

    monkeypatch.setattr(store_module, "_connected", sealed)
    store = ResultStore(tmp_path)
    assert store.trouble is not None and "not kept: attempt to write a readonly" in store.trouble
    assert store.get("key") == b"content"
    store.put("new", b"new")
    assert store.get("new") is None
    store.close()
    assert (tmp_path / "results.sqlite").exists()


def test_a_damaged_store_of_others_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)

    def sealed(file: Path) -> sqlite3.Connection:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store_module, "_connected", sealed)
    store = ResultStore(tmp_path)
    assert store.trouble is not None and store.trouble.endswith("results are not kept: permission denied")
    assert store.get("key") is None
    assert (tmp_path / "results.sqlite").exists()


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    running = [writer(tmp_path, prefix, 100) for prefix in "abc"]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    store = ResultStore(tmp_path)
    for prefix in "abc":
        for number in range(100):
            assert store.get(f"{prefix}{number}") == f"content {number}".encode() * 100
    store.close()


def test_a_killed_process_leaves_a_whole_store(tmp_path: Path) -> None:
    process = writer(tmp_path, "k", 1_000_000)
    assert process.stdout is not None
    done = [process.stdout.readline() for _ in range(300)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = ResultStore(tmp_path)
    assert len(done) == 300
    assert store.get("k0") == b"content 0" * 100
    assert store.get("k299") == b"content 299" * 100
    store.put("after", b"after")
    assert store.get("after") == b"after" and store.trouble is None
    store.close()


def test_the_longest_unused_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = iter(range(10**9))

    def content() -> bytes:
        import hashlib

        return b"".join(hashlib.sha512(str(next(noise)).encode()).digest() for _ in range(3200))

    now = time.time()
    store = ResultStore(tmp_path, megabytes=1)
    for number in range(10):
        monkeypatch.setattr(time, "time", lambda number=number: now - 100_000 + number)
        store.put(str(number), content())
    monkeypatch.setattr(time, "time", lambda: now)
    assert store.get("0") is not None
    store.close()
    store = ResultStore(tmp_path, megabytes=1)
    kept = [number for number in range(10) if store.get(str(number)) is not None]
    assert kept == [0, 7, 8, 9]
    store.close()


def _open_and_keep(folder: Path, together: Barrier, troubles: "Queue[str | None]") -> None:
    together.wait()
    store = ResultStore(folder)
    store.put(str(os.getpid()), b"content")
    troubles.put(store.trouble)
    store.close()


def test_processes_that_open_a_new_file_together_all_keep_results(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(20):
        together, troubles = context.Barrier(8), context.Queue()
        arguments = (tmp_path / str(number), together, troubles)
        running = [context.Process(target=_open_and_keep, args=arguments) for _ in range(8)]
        for process in running:
            process.start()
        assert [troubles.get(timeout=60) for _ in running] == [None] * 8
        for process in running:
            process.join()
