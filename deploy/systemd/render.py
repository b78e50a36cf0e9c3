"""Profile -> unit files. The templates beside this file hold what is the same for every profile."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from k25serve.server.config import Profile
from k25serve.server.config.shown import shown
from k25serve.server.engine.process import GUARDIAN_MARGIN_S
from k25serve.server.errors import ConfigError

TEMPLATES = Path(__file__).parent
ENGINE = "k25serve-engine@.service"
GATEWAY = "k25serve-gateway.service"
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
PRIVILEGED_BELOW = 1024
STATE = Path("/var/lib")

BURST = 4  # the first start and three more
ENGINE_RESTART_S = 10
GATE_S = 900  # fifty prompts, on an engine whose first requests compile kernels
MARGIN_S = 60


def engine_unit(profile: Profile) -> str:
    """Name of the unit that runs the engine of `profile`."""
    return f"k25serve-engine@{profile.name}.service"


def start_seconds(profile: Profile) -> int:
    """The longest that a start may take: a dying engine's end, free memory, the load, the gate."""
    engine = profile.engine
    gate = GATE_S if profile.gate.policy == "refuse" else 0
    waits = engine.stop_timeout_s + GUARDIAN_MARGIN_S + engine.release_timeout_s
    return round(waits + engine.ready_timeout_s + gate + MARGIN_S)


def stop_seconds(profile: Profile) -> int:
    """The longest that a stop may take: the launcher waits for the guardian, which drains, kills and reaps."""
    return round(profile.engine.stop_timeout_s + 2 * GUARDIAN_MARGIN_S)


def engine_files(profile: Profile, command: Sequence[str], user: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Text by path of the engine's template unit and of the drop-in that makes it this profile's.

    command: starts the engine; its first word is the k25serve executable. environ: CUDA_HOME is taken from it.
    Raises ConfigError where `user` is no account's name.
    """
    if not USER.fullmatch(user):
        raise ConfigError(f"--user {shown(user)}: no account's name; use lower-case letters, digits, _ and -")
    start_s, stop_s = start_seconds(profile), stop_seconds(profile)
    conf = fill(
        "profile.conf",
        name=profile.name,
        command=exec_line(command),
        start_s=start_s,
        stop_s=stop_s,
        burst=BURST,
        interval_s=BURST * (start_s + stop_s + ENGINE_RESTART_S) + MARGIN_S,
    )
    if cuda_home := environ.get("CUDA_HOME"):
        conf += f"Environment={quoted(f'CUDA_HOME={cuda_home}', dollar='$')}\n"
    return {
        ENGINE: fill(ENGINE, executable=quoted(command[0]), user=user, engine_restart_s=ENGINE_RESTART_S),
        f"{engine_unit(profile)}.d/profile.conf": conf,
        "k25serve.sysusers.conf": fill("sysusers.conf", user=user),
    }


def gateway_files(profile: Profile, command: Sequence[str], user: str) -> dict[str, str]:
    """Text by path of the gateway's unit. command: starts the gateway.

    Raises ConfigError where a folder that it writes in is relative.
    """
    gateway = profile.gateway
    return {
        GATEWAY: fill(
            GATEWAY,
            name=profile.name,
            command=exec_line(command),
            user=user,
            stop_s=round(gateway.drain_notice_s + gateway.drain_s + MARGIN_S),
            capabilities="CAP_NET_BIND_SERVICE" if gateway.port < PRIVILEGED_BELOW else "",
            writes=_writes(profile),
        )
    }


def folders_to_make(profile: Profile) -> list[Path]:
    """What the gateway writes in and systemd does not make: it has to be there before the unit starts."""
    return [folder for folder in _written(profile).values() if not _made(folder)]


def _written(profile: Profile) -> dict[str, Path]:
    """The folders where the gateway writes, by profile key."""
    gateway = profile.gateway
    folders = {}
    if gateway.conversation_log is not None:
        folders["gateway.conversation_log.directory"] = gateway.conversation_log.directory
    if gateway.experiment is not None:
        folders["gateway.experiment.state"] = gateway.experiment.state.parent
    return folders


def _made(folder: Path) -> bool:
    """Whether StateDirectory= can name it: it takes a colon and what follows for a link's name."""
    return STATE in folder.parents and ".." not in folder.parts and ":" not in str(folder)


def _writes(profile: Profile) -> str:
    """Lines for the places where the gateway's unit may write."""
    folders = _written(profile)
    for key, folder in folders.items():
        if not folder.is_absolute():
            raise ConfigError(f"{key} {shown(str(folder))}: a service needs an absolute path")
    distinct = dict.fromkeys(folders.values())
    made = [quoted(str(folder.relative_to(STATE)), dollar="$") for folder in distinct if _made(folder)]
    # With the dash a missing folder is the gateway's to tell, in words.
    others = [quoted(f"-{folder}", dollar="$") for folder in distinct if not _made(folder)]
    lines = []
    if made:
        lines += [f"StateDirectory={' '.join(made)}", "StateDirectoryMode=0700"]
    if others:
        lines.append(f"ReadWritePaths={' '.join(others)}")
    return "".join(f"{line}\n" for line in lines)


def k25serve_command(
    executable: Path, command: str, profile: Profile, source: str, overrides: Sequence[str]
) -> list[str]:
    """The command line of a service, with the model folders in it, so that it needs no variable.

    source: the profile as the user named it, a packaged one or a file.
    """
    named = str(Path(source).resolve()) if Path(source).is_file() else source
    settings = [*overrides, f"target={json.dumps(profile.target)}"]
    if profile.speculation.drafter is not None:
        settings.append(f"speculation.drafter={json.dumps(profile.speculation.drafter)}")
    return [str(executable), command, "--profile", named, *(part for item in settings for part in ("--set", item))]


def exec_line(command: Sequence[str]) -> str:
    """`command` as the value of ExecStart=."""
    return " ".join(quoted(word) for word in command)


def quoted(word: str, dollar: str = "$$") -> str:
    """One word of a unit file: no specifier, no variable, no separator in it. Source: systemd.service(5).

    dollar: how a dollar sign is written; `Environment=` knows no variables.
    """
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%").replace("$", dollar)
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII) else f'"{text}"'


def fill(template: str, **values: object) -> str:
    """The text of a template of this folder."""
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)
