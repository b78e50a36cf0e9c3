"""What an estimate is asked for."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from k25serve.drafters.training.settings import Settings

PACKAGED_TARGET = Path(__file__).with_name("targets") / "kimi-k2.5"
Count = Annotated[int, Field(ge=1, le=10**12)]
Length = Annotated[int, Field(ge=1, le=10**7)]
Amount = Annotated[float, Field(gt=0, le=1e9)]


class EstimateOptions(Settings):
    """Lengths in tokens, mean over the samples.

    `regenerate`: the target writes the answers anew. `ttt_steps`: how often a training step unrolls the drafter.
    `hours`: what may be spent in all. `disk_tb`: free for hidden states, 1e12 bytes; None: enough.
    `price_per_gpu_hour`: in whatever currency. `target`: a folder with config.json.
    """

    samples: Count = 100_000
    prompt_tokens: Length = 800
    generated_tokens: Length = 1200
    epochs: Annotated[int, Field(ge=1, le=1000)] = 1
    regenerate: bool = True
    machine: str = "rtx-pro-6000-server-x8"
    target: Path = PACKAGED_TARGET
    ttt_steps: Annotated[int, Field(ge=1, le=16)] = 3
    draft_vocab_size: Count = 32_000
    draft_intermediate_size: Count | None = None
    max_length: Length = 4096
    price_per_gpu_hour: Amount | None = None
    disk_tb: Amount | None = None
    hours: Amount | None = None

    @property
    def sample_tokens(self) -> int:
        """Tokens of a sample, prompt and answer."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def tokens(self) -> int:
        """Tokens of all samples, once."""
        return self.samples * self.sample_tokens
