import os
import re
import resource
import stat
import subprocess
import sys

import pytest

LINE = b'{"x":"' + b"y" * 91 + b'"}\n'
NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl")


def sizes(folder):
    return [path.stat().st_size for path in sorted(folder.iterdir())]


def test_files_are_the_owners_and_named_by_their_start(log_files, folder):
    files = log_files()
    assert list(folder.iterdir()) == []
    old = os.umask(0)
    try:
        files.append(LINE)
    finally:
        os.umask(old)
    files.append(LINE)
    files.close()
    (path,) = folder.iterdir()
    assert NAME.fullmatch(path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == LINE * 2


def test_a_full_file_is_followed_by_the_next(log_files, folder):
    files = log_files(max_bytes=250)
    for _ in range(5):
        files.append(LINE)
    assert sizes(folder) == [200, 200, 100]
    files.append(LINE * 9)
    files.append(LINE)
    assert sizes(folder) == [200, 200, 100, 900, 100]
    files.close()


def test_the_oldest_go(log_files, folder):
    (folder / "mine.jsonl").write_text("not the log's")
    (folder / "20260101T000000.000000Z-1.jsonl").write_text("an earlier start's")
    files = log_files(max_bytes=100, keep=3)
    for number in range(6):
        files.append(b'{"n":%d,"x":"' % number + b"y" * 85 + b'"}\n')
    files.close()
    ours = [path for path in sorted(folder.iterdir()) if NAME.fullmatch(path.name)]
    assert [path.read_bytes()[5:6] for path in ours] == [b"3", b"4", b"5"]
    assert (folder / "mine.jsonl").exists()


def test_a_file_that_another_process_writes_stays(log_files, folder):
    (folder / "20260101T000000.000000Z-1.jsonl").write_text("a dead worker's")
    living = folder / "20260101T000000.000000Z-2.jsonl"
    living.write_text("a living worker's")
    hold = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", hold, living], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline()
        files = log_files(max_bytes=100, keep=1)
        files.append(LINE)
        files.append(LINE)
        assert living.exists()
        assert sizes(folder) == [17, 100]
        files.close()
        other.communicate(b"\n")


def test_half_a_line_is_taken_back(log_files, folder):
    """With a limit on the size of files, which cuts a write short as a full disk does."""
    files = log_files()
    files.append(LINE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            files.append(LINE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sizes(folder) == [100]
    files.append(LINE)
    files.close()
    assert sizes(folder) == [200]
