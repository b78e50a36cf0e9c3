"""The acceptance gate at start: fifty prompts through the new engine, told on the console, in a file, in /metrics."""

from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry, Gauge
from rich.console import Console

from k25serve.drafters.check import Verdict
from k25serve.drafters.checkpoint import DrafterError
from k25serve.drafters.gate import GateResult, GateSettings, run_gate, write_json
from k25serve.drafters.registry import load_registry
from k25serve.server.config import Profile
from k25serve.server.engine.readiness import engine_url
from k25serve.server.engine.state import log_path
from k25serve.server.errors import EngineFailed


class AcceptanceGate:
    """The gate of a profile; where there is no drafter, or its policy is `off`, it does nothing.

    registry: gets gauges of the outcome; there is no sample before the gate has run.
    """

    def __init__(self, profile: Profile, console: Console, registry: CollectorRegistry | None = None) -> None:
        self._profile = profile
        self._console = console
        self._wanted = profile.speculation.algorithm == "eagle3" and profile.gate.policy != "off"
        self._length = Gauge(
            "k25serve_gateway_gate_accept_length",
            "Tokens a verify step, the target's own included, over the gate's packaged prompts, by class of prompts.",
            ["prompts"],
            registry=registry,
        )
        self._verdict = Gauge(
            "k25serve_gateway_gate_verdict",
            "1 for the verdict of the acceptance gate at start (pass, warn, refuse), 0 for the others.",
            ["verdict"],
            registry=registry,
        )

    @property
    def holds_readiness(self) -> bool:
        """Whether the engine counts as ready only once the gate has passed."""
        return self._wanted and self._profile.gate.policy == "refuse"

    async def run(self) -> None:
        """Run it on the profile's engine, which must serve already; tell, write and export the outcome.

        Raises EngineFailed where the policy is `refuse` and acceptance is below the floor.
        """
        if not self._wanted:
            return
        try:
            result = await run_gate(engine_url(self._profile), self._settings(), self._profile.served_model_name)
        except DrafterError as error:
            if self.holds_readiness:
                raise EngineFailed(f"acceptance gate: {error}") from None
            return self._say(f"acceptance gate: not run: {error}", "yellow")
        file = log_path(self._profile).with_suffix(".gate.json")
        write_json(result.as_json(), file)
        self._export(result)
        told = "; ".join((_summary(result, file), *result.reasons))
        if result.verdict is Verdict.REFUSE:
            raise EngineFailed(told)
        self._say(told, "yellow" if result.verdict is Verdict.WARN else "")

    def _settings(self) -> GateSettings:
        gate = self._profile.gate
        expected = load_registry().get(gate.entry).expected() if gate.entry else {}
        policy: Literal["warn", "refuse"] = "refuse" if self.holds_readiness else "warn"
        return GateSettings(accept_floor=gate.accept_floor, policy=policy, expected=expected)

    def _export(self, result: GateResult) -> None:
        for name, measured in {"all": result.overall, **result.classes}.items():
            if measured.accept_length is not None:
                self._length.labels(name).set(measured.accept_length)
        for verdict in Verdict:
            self._verdict.labels(verdict.value).set(verdict is result.verdict)

    def _say(self, text: str, style: str) -> None:
        self._console.print(text, style=style, markup=False, highlight=False)


def _summary(result: GateResult, file: Path) -> str:
    length = result.overall.accept_length
    shown = "none" if length is None else f"{length:.2f}"
    return f"acceptance gate: {result.verdict}, accept_length {shown} over {result.overall.prompts} prompts, {file}"
