"""Reads the registry's file and answers from it."""

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from k25serve.drafters.checkpoint.errors import RegistryError
from k25serve.drafters.checkpoint.near_miss import near_misses
from k25serve.drafters.registry.entry import Entry, TargetName

FILE = Path(__file__).with_name("drafters.yaml")


class Registry(BaseModel):
    """All entries; `first` names for each target the drafters to try, best first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: dict[TargetName, tuple[str, ...]]
    drafters: tuple[Entry, ...]

    @model_validator(mode="after")
    def _consistent(self) -> "Registry":
        names = [entry.repo for entry in self.drafters]
        twice = {name for name in names if names.count(name) > 1}
        unknown = {name for order in self.first.values() for name in order} - set(names)
        unranked = {e.repo for e in self.drafters if e.repo not in self.first.get(e.trained_for, ())}
        for what, found in (("named twice", twice), ("ranked but not described", unknown), ("not ranked", unranked)):
            if found:
                raise ValueError(f"{what}: {', '.join(sorted(found))}")
        return self

    def get(self, name: str) -> Entry:
        """The entry of a repository, with or without its owner. Raises RegistryError for none or two."""
        wanted = name.lower()
        found = [e for e in self.drafters if wanted in (e.repo.lower(), e.repo.lower().rpartition("/")[2])]
        exact = [entry for entry in found if entry.repo.lower() == wanted]
        if len(exact or found) == 1:
            return (exact or found)[0]
        repos = [entry.repo for entry in found or self.drafters]
        near = repos if found else near_misses(name, repos)
        hint = f"did you mean {' or '.join(near)}" if near else "k25serve drafter list names all"
        raise RegistryError(f"drafter {name!r}: {'several match' if found else 'not in the registry'}; {hint}")

    def ranked(self, target: TargetName) -> tuple[Entry, ...]:
        """The drafters for `target`, best first: native ones before the one that needs an adapter."""
        return tuple(self.get(name) for name in self.first.get(target, ()))

    def targets_of(self, entry: Entry) -> tuple[str, ...]:
        """The targets for which the entry is ranked."""
        return tuple(target for target, order in self.first.items() if entry.repo in order)


def load_registry(path: Path = FILE) -> Registry:
    """Read the registry. Raises RegistryError where the file is not one."""
    try:
        return Registry.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise RegistryError(f"{path}: not a registry ({error}); compare it with the packaged one") from None
