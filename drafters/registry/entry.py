"""One public drafter, as data."""

from statistics import fmean
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

TargetName = Literal["K2", "K2-Thinking", "K2.5", "K2.6"]
PromptClass = Literal["code", "maths", "chat", "tools", "chinese"]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AuxLayers(Part):
    """Layer ids as the repository stores them; input: the layer that a state enters, output: the one that it leaves."""

    ids: tuple[int, ...]
    convention: Literal["input", "output"]


class Acceptance(Part):
    """A published accept length (tokens a verify step, the target's own included)."""

    benchmark: str
    prompt_class: PromptClass = Field(alias="class")
    accept_length: float = Field(gt=1)
    setting: str


class Entry(Part):
    """What is publicly known of a drafter; None and empty where it is not."""

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    trained_for: TargetName
    algorithm: Literal["eagle3", "dflash", "dspark", "mtp"]
    architecture: str
    known_from: Literal["config", "card", "secondary"]
    aux: AuxLayers | None = None
    draft_vocab_size: int | None = None
    max_position_embeddings: int | None = None
    rope: dict[str, Any] | None = None
    adapter: str | None = None
    adapter_costs: str = ""
    acceptance: tuple[Acceptance, ...] = ()
    flags: tuple[str, ...]
    traps: tuple[str, ...] = ()
    sources: tuple[str, ...] = Field(min_length=1)

    @property
    def download(self) -> str:
        """The command by which a user fetches it; this project fetches nothing."""
        return f"hf download {self.repo} --local-dir {self.repo.rpartition('/')[2]}"

    def expected(self) -> dict[str, float]:
        """Mean published accept length by class of prompts."""
        classes: dict[str, list[float]] = {}
        for row in self.acceptance:
            classes.setdefault(row.prompt_class, []).append(row.accept_length)
        return {name: round(fmean(values), 3) for name, values in classes.items()}
