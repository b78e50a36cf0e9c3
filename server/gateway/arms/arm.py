"""One engine as the gateway sees it."""

from dataclasses import dataclass

from k25serve.server.gateway.admission.slots import Slots
from k25serve.server.gateway.arms.breaker import Breaker
from k25serve.server.gateway.arms.dialects import WORDS, Words
from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.direct import Observations
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Arm:
    settings: ArmSettings
    upstream: Upstream
    readiness: Readiness
    breaker: Breaker
    slots: Slots
    queue_wait: Observations

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def words(self) -> Words:
        return WORDS[self.settings.dialect]

    @property
    def available(self) -> bool:
        return self.readiness.ready and self.breaker.admits
