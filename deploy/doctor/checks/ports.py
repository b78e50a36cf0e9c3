"""The ports that the engine and the gateway will open."""

from k25serve.deploy.doctor.finding import Finding, ok, refused
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile
from k25serve.server.engine.preflight import check_port
from k25serve.server.errors import UserError


def check(profile: Profile, _: Machine) -> list[Finding]:
    """Free now; a running deployment holds its own."""
    found = []
    for field, host, port in (
        ("engine.port", "127.0.0.1", profile.engine.port),
        ("gateway.port", profile.gateway.host, profile.gateway.port),
    ):
        try:
            check_port(field, host, port)
        except UserError as error:
            found.append(refused("ports", error))
        else:
            found.append(ok("ports", f"{field} {host}:{port} is free"))
    return found
