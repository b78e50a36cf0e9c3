"""The real systemd as PID 1 of namespaces of its own: it sees our units only, and its files are in memory.

Needs root and CAP_SYS_ADMIN for the namespaces. Nothing outside is touched, and all of it ends with the test.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SYSTEMD = Path("/lib/systemd/systemd")
TARGETS = (
    "basic",
    "sysinit",
    "shutdown",
    "sockets",
    "timers",
    "paths",
    "slices",
    "network-online",
    "network",
    "umount",
)
BOOT_S = 30
CGROUP = """
set -e
mount -t proc proc /proc
for up in /sys/fs/cgroup/*; do umount -l "$up" 2>/dev/null || true; done
umount -l /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
"""
# A cgroup of its own is its root, so that two at a time don't meet.
JOIN = """
mkdir /sys/fs/cgroup/"$2"
echo $$ > /sys/fs/cgroup/"$2"/cgroup.procs
exec unshare --cgroup bash -c "$3" boot "$1"
"""
# The unit path has no trailing colon, so that nothing of this machine is started.
BOOT = """
set -e
umount /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for folder in /run /var/lib /var/cache /var/log /var/tmp; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/systemd/system /run/lock
exec env -i PATH="$PATH" container=lxc SYSTEMD_UNIT_PATH="$1" SYSTEMD_LOG_TARGET=console \
    /lib/systemd/systemd --system --show-status=no --unit=box.target
"""
# A killed process leaves its cgroup a moment after it has left /proc.
CLEAN = """
for _ in {1..200}; do
    find /sys/fs/cgroup/"$1" -depth -type d -exec rmdir {} + 2>/dev/null && exit 0
    sleep 0.05
done
exit 1
"""


@dataclass(frozen=True)
class Box:
    """A running systemd: `units` is its only folder of unit files."""

    pid: int
    units: Path

    def run(self, *command: str, check: bool = True, timeout: float = 120) -> str:
        """Run a command inside; its output, stripped."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-m", "-p", "-w", "--", *command],
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return (done.stdout + done.stderr).strip()

    def systemctl(self, *words: str, check: bool = True, timeout: float = 120) -> str:
        return self.run("systemctl", *words, check=check, timeout=timeout)

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.systemctl("show", unit, f"--property={name}", "--value")

    def is_file(self, path: str) -> bool:
        return (Path(f"/proc/{self.pid}/root") / path.lstrip("/")).is_file()

    def write(self, name: str, text: str) -> None:
        """Put a unit file, or a drop-in, in place and have it read."""
        path = self.units / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.systemctl("daemon-reload")

    def until(self, unit: str, name: str, *wanted: str, seconds: float = 60) -> str:
        """Wait until a property is one of `wanted`."""
        deadline = time.monotonic() + seconds
        while (now := self.show(unit, name)) not in wanted:
            status = self.systemctl("status", "--no-pager", "--lines=0", unit, check=False)
            assert time.monotonic() < deadline, f"{unit}: {name} is {now}, not {' or '.join(wanted)}:\n{status}"
            time.sleep(0.05)
        return now

    def processes(self, unit: str) -> list[int]:
        """Pids of a unit's cgroup, as this side of the namespace numbers them."""
        group = Path(f"/proc/{self.pid}/root/sys/fs/cgroup{self.show(unit, 'ControlGroup')}/cgroup.procs")
        if group.parent.name == "cgroup" or not group.exists():
            return []
        # The file lists them in the reader's numbers, 0 for what the reader cannot see.
        return [int(line) for line in group.read_text().splitlines()]


@contextmanager
def booted(units: Path) -> Iterator[Box]:
    """Boot on the unit files in `units`. Skips, or in CI fails, where systemd is missing; skips without the rights."""
    programs = [program for program in ("unshare", "nsenter", "systemctl") if shutil.which(program) is None]
    if programs or not SYSTEMD.exists():
        missing = f"{SYSTEMD} or {', '.join(programs)} is missing: apt-get install systemd util-linux"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    probe = ["unshare", "--pid", "--fork", "--mount", "--cgroup", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("systemd cannot be started here: namespaces need root with CAP_SYS_ADMIN")
    for name in TARGETS:
        (units / f"{name}.target").symlink_to(f"/lib/systemd/system/{name}.target")
    (units / "box.target").write_text("[Unit]\nRequires=basic.target\nAfter=basic.target\n")
    console = (units / "console.txt").open("w")
    namespaces = ("--pid", "--fork", "--mount", "--uts", "--ipc", "--kill-child=KILL")
    group = f"k25serve-test-{uuid.uuid4().hex}"
    libc = ctypes.CDLL(None)
    outer = subprocess.Popen(
        ["unshare", *namespaces, "bash", "-c", CGROUP + JOIN, "join", str(units), group, BOOT],
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG: it ends with the test
    )
    box = Box(_first_child(outer), units)
    try:
        deadline = time.monotonic() + BOOT_S
        while box.systemctl("is-active", "box.target", check=False) != "active":
            assert outer.poll() is None, (units / "console.txt").read_text()
            assert time.monotonic() < deadline, (units / "console.txt").read_text()
            time.sleep(0.05)
        yield box
    finally:
        outer.kill()
        outer.wait()
        console.close()
        subprocess.run(
            ["unshare", "--pid", "--fork", "--mount", "bash", "-c", CGROUP + "set +e\n" + CLEAN, "clean", group],
            check=True,
        )


def _first_child(process: "subprocess.Popen[bytes]") -> int:
    deadline = time.monotonic() + BOOT_S
    while True:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            return int(children[0])
        assert process.poll() is None, f"unshare ended with {process.returncode}"
        assert time.monotonic() < deadline, "unshare started nothing"
        time.sleep(0.01)
