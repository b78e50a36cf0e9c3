"""The two arms: engines that run already, profiles booted here, systemd units started and stopped."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from k25serve.bench.ab.systemd import Systemctl
from k25serve.bench.load.endpoint import Endpoint, resolve
from k25serve.server.errors import UserError

Boot = Callable[[str], AbstractAsyncContextManager[str]]


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """An arm as the user named it. `name`: the profile or the unit; `endpoint`: told for a URL and a unit."""

    kind: Literal["url", "profile", "unit"]
    spec: str
    name: str
    endpoint: Endpoint | None


def parse_arm(option: str, spec: str) -> ArmSpec:
    """`http://...` is a running engine, `unit:NAME@URL` a systemd unit that serves at URL, anything else a profile.

    Raises UserError, naming `option`.
    """
    if spec.startswith(("http://", "https://")):
        return ArmSpec("url", spec, spec, resolve(spec, option))
    if spec.startswith("unit:"):
        name, at, url = spec.removeprefix("unit:").partition("@http")
        if not name or not at:
            raise UserError(f"{option} {spec}: write unit:NAME@URL, e.g. unit:vllm.service@http://127.0.0.1:8000")
        return ArmSpec("unit", spec, name, resolve(f"http{url}", option))
    if not spec.strip():
        raise UserError(f"{option} is empty; pass a URL, a profile or unit:NAME@URL")
    return ArmSpec("profile", spec, spec, None)


@asynccontextmanager
async def up(arm: ArmSpec, boot: Boot, systemctl: Systemctl) -> AsyncIterator[Endpoint]:
    """The arm's engine for one turn: freshly started where it is started here, stopped at the end of the turn.

    A unit may not answer yet; a profile's engine does.
    """
    async with contextlib.AsyncExitStack() as stack:
        if arm.kind == "profile":
            yield resolve(await stack.enter_async_context(boot(arm.name)))
            return
        assert arm.endpoint is not None
        if arm.kind == "unit":
            await systemctl.stop(arm.name)
            stack.push_async_callback(systemctl.stop, arm.name)
            await systemctl.start(arm.name)
        yield arm.endpoint
