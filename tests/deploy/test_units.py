"""What the units say: systemd finds no fault in them, and every limit fits the profile's."""

import configparser
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from k25serve.deploy.commands import app
from k25serve.deploy.systemd.render import (
    BURST,
    GATEWAY,
    engine_files,
    engine_unit,
    gateway_files,
    k25serve_command,
    quoted,
)
from k25serve.server.config import Profile, load_profile, profile_names
from k25serve.server.errors import ConfigError, UserError

MODELS = {"K25_TARGET": "/models/Kimi-K2.5", "K25_DRAFTER": "/models/Kimi K25 100% $eagle3"}
TRUE = Path("/bin/true")


def rendered(name: str, *overrides: str, user: str = "k25serve") -> tuple[Profile, dict[str, str]]:
    profile = load_profile(name, overrides, MODELS)
    engine, gateway = (k25serve_command(TRUE, what, profile, name, overrides) for what in ("engine", "gateway"))
    return profile, engine_files(profile, engine, user, {"CUDA_HOME": "/usr/local/cuda"}) | gateway_files(
        profile, gateway, user
    )


def section(text: str, name: str = "Service") -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser[name]


@pytest.mark.parametrize("name", profile_names())
def test_systemd_finds_no_fault(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        missing = "systemd-analyze is missing: apt-get install systemd"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    profile, files = rendered(name, 'gateway.conversation_log.directory="/srv/my talks"')
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    for unit in (engine_unit(profile), "k25serve-gateway.service"):
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / unit)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for unit, most in (("k25serve-engine@.service", "40"), ("k25serve-gateway.service", "20")):
        review = ["systemd-analyze", "security", "--offline=yes", f"--threshold={most}", "--no-pager"]
        done = subprocess.run([*review, str(tmp_path / unit)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", profile_names())
def test_limits_fit(name: str) -> None:
    """F02: no default of systemd's cuts a load short, and a loop of late deaths trips the start limit."""
    profile, files = rendered(name)
    conf = files[f"{engine_unit(profile)}.d/profile.conf"]
    unit, limits = section(files["k25serve-engine@.service"]), section(conf)
    start, stop = int(limits["TimeoutStartSec"]), int(limits["TimeoutStopSec"])
    assert start > profile.engine.ready_timeout_s + profile.engine.release_timeout_s + profile.engine.stop_timeout_s
    if profile.engine.device == "cuda" and profile.engine.tp == 8:
        assert start > 90 * 60
    assert stop > profile.engine.stop_timeout_s
    assert unit["Restart"] == "on-failure"
    assert unit["KillMode"] in ("mixed", "control-group")
    assert unit["RestartPreventExitStatus"] == str(UserError.exit_code)
    assert section(conf, "Unit")["StartLimitBurst"] == str(BURST)
    assert int(section(conf, "Unit")["StartLimitIntervalSec"]) > BURST * (start + stop + int(unit["RestartSec"]))
    gateway = section(files["k25serve-gateway.service"])
    assert int(gateway["TimeoutStopSec"]) > profile.gateway.drain_s + profile.gateway.drain_notice_s
    assert gateway["Restart"] == "always"


def test_the_command_needs_no_variable_of_the_shell() -> None:
    """The drafter's folder has a blank, a dollar and a percent sign; systemd takes them for what they are."""
    profile, files = rendered("k25-int4-sm120x8", "gateway.port=443")
    conf = files[f"{engine_unit(profile)}.d/profile.conf"]
    last = [line for line in conf.splitlines() if line.startswith("ExecStart=")][-1]
    words = shlex.split(last.removeprefix("ExecStart=").replace("$$", "$").replace("%%", "%"))
    assert words[:4] == ["/bin/true", "engine", "--profile", "k25-int4-sm120x8"]
    again = load_profile(words[3], [word for word in words[4:] if word != "--set"], {})
    assert again == profile
    assert "Environment=CUDA_HOME=/usr/local/cuda" in conf
    gateway = section(files["k25serve-gateway.service"])
    assert gateway["AmbientCapabilities"] == gateway["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"
    assert gateway["ExecReload"] == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize(
    ("folder", "lines", "made_by_hand"),
    [
        ("/var/lib/k25serve/talks", ["StateDirectory=k25serve/talks", "StateDirectoryMode=0700"], False),
        ("/srv/my talks", ['ReadWritePaths="-/srv/my talks"'], True),
        ("/var/lib/../srv/100%", ["ReadWritePaths=-/var/lib/../srv/100%%"], True),
        ("/var/lib", ["ReadWritePaths=-/var/lib"], True),
    ],
)
def test_the_conversation_log_can_be_written(tmp_path: Path, folder: str, lines: list[str], made_by_hand: bool) -> None:
    override = f'gateway.conversation_log.directory="{folder}"'
    _, files = rendered("cpu-tiny", override)
    assert [line for line in files[GATEWAY].splitlines() if line.startswith(("State", "ReadWrite"))] == lines
    assert "State" not in rendered("cpu-tiny")[1][GATEWAY]
    words = ("systemd", "--profile", "cpu-tiny", "--executable", str(TRUE), "--set", override)
    written = CliRunner().invoke(app, [*words, "--output", str(tmp_path)])
    told = f"install -d -o k25serve -g k25serve -m 700 {shlex.quote(folder)} &&\n"
    assert (told in written.output) == made_by_hand


EXPERIMENT = "{name: x, mode: aa, control: a, weights: {a: 1, b: 1}, state: STATE}"
ARMS = "gateway.arms=[{name: a}, {name: b}]"


def test_an_experiments_state_can_be_written() -> None:
    """README's own example: without this the unit's ProtectSystem=strict refuses the file."""
    experiment = f"gateway.experiment={EXPERIMENT.replace('STATE', '/var/lib/k25serve/x.db')}"
    _, files = rendered("cpu-tiny", ARMS, experiment)
    assert "StateDirectory=k25serve\n" in files[GATEWAY]
    _, files = rendered("cpu-tiny", ARMS, experiment, 'gateway.conversation_log.directory="/srv/talks"')
    assert "StateDirectory=k25serve\n" in files[GATEWAY]
    assert "ReadWritePaths=-/srv/talks\n" in files[GATEWAY]
    with pytest.raises(ConfigError, match=r"experiment.state '\.': a service needs an absolute path"):
        rendered("cpu-tiny", ARMS, f"gateway.experiment={EXPERIMENT.replace('STATE', 'x.db')}")


def test_a_relative_conversation_log_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"conversation_log.directory 'talks': a service needs an absolute path"):
        rendered("cpu-tiny", "gateway.conversation_log.directory=talks")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("a", "a"), ("a b", '"a b"'), ("50%", "50%%"), ('"', '"\\""'), ("$X", '"$$X"'), ("a\\b", '"a\\\\b"'), ("", '""')],
)
def test_quoting(word: str, expected: str) -> None:
    assert quoted(word) == expected


@pytest.mark.parametrize("user", ["", "Root", "a b", "x\nUser=root", "-u"])
def test_odd_users_are_refused(user: str) -> None:
    with pytest.raises(ConfigError, match="no account's name; use lower-case letters"):
        rendered("cpu-tiny", user=user)


def test_prints_or_writes(tmp_path: Path) -> None:
    words = ("systemd", "--profile", "cpu-tiny", "--executable", str(TRUE))
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0
    written = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "new"), "--engine-only"])
    assert "systemctl enable --now k25serve-engine@cpu-tiny.service\n" in written.output
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["k25serve-engine@.service", "k25serve.sysusers.conf", "profile.conf"]
    for path in files:
        assert path.read_text() in printed.output
    assert "### k25serve-gateway.service" in printed.output


def test_a_program_that_cannot_be_run() -> None:
    done = CliRunner().invoke(app, ("systemd", "--profile", "cpu-tiny", "--executable", "/etc/passwd"))
    assert isinstance(done.exception, ConfigError)
    assert "--executable /etc/passwd: is no program" in str(done.exception)
