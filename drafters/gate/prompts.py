"""The packaged prompts, read and checked."""

import hashlib
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from k25serve.drafters.checkpoint.errors import GateError
from k25serve.drafters.registry import PromptClass

FILE = Path(__file__).with_name("prompts.yaml")


class Tool(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    parameters: dict[str, Any]


class Prompt(BaseModel):
    """One question; `tools` are names of the set's tools."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    prompt_class: PromptClass
    thinking: bool
    user: str
    tools: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _class(cls, value: Any) -> Any:
        if isinstance(value, dict) and "class" in value:
            value = {("prompt_class" if key == "class" else key): item for key, item in value.items()}
        return value


class PromptSet(BaseModel):
    """Prompts, the tools that they may use, and what each tool answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: dict[str, Tool]
    answers: dict[str, str]
    prompts: tuple[Prompt, ...]

    @model_validator(mode="after")
    def _consistent(self) -> "PromptSet":
        ids = [prompt.id for prompt in self.prompts]
        if len(set(ids)) != len(ids):
            raise ValueError("two prompts have the same id")
        unknown = {name for prompt in self.prompts for name in prompt.tools} - set(self.tools)
        if unknown or set(self.answers) != set(self.tools):
            raise ValueError(f"tools and answers do not go together ({', '.join(sorted(unknown)) or 'answers'})")
        return self

    def functions(self, prompt: Prompt) -> list[dict[str, Any]]:
        """`tools` of the request, in OpenAI's form."""
        return [
            {"type": "function", "function": {"name": name, **self.tools[name].model_dump()}} for name in prompt.tools
        ]


def load_prompts(path: Path = FILE) -> PromptSet:
    """Read a set of prompts. Raises GateError where the file is not one."""
    try:
        return PromptSet.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise GateError(f"{path}: not a set of prompts ({error}); compare it with the packaged one") from None


def prompts_sha256(path: Path = FILE) -> str:
    """Hex SHA-256 of the prompts' file: results compare only where it is the same."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
