"""Does a row fit an SGLang? Read off the source."""

from collections.abc import Sequence
from dataclasses import dataclass

from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.row import Row, Source


@dataclass(frozen=True)
class Misfit:
    """Why a row can't be applied to an SGLang, and what to do."""

    row: Row
    version: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"patch {self.row.name}: {self.what}; {self.remedy}"


def misfits(row: Row, modules: Modules) -> list[Misfit]:
    """Everything of `row` that the modules' SGLang lacks or has changed; empty where the row fits.

    A version that the row does not know is compared with the last one that it does, to show what an upgrade takes.
    """
    version = modules.version
    like = version if row.hooks_in(version) else row.versions[-1]
    found = []
    if like != version:
        found.append(f"written for SGLang {' and '.join(row.versions)}, found {version}")
    for source in row.sources_in(like):
        seen = modules.fingerprint(source.target)
        if seen != source.fingerprints[like]:
            found.append(_difference(source, like, version, seen))
    return [Misfit(row, version, what, way_out(row)) for what in found]


def is_left_out(row: Row, rows: Sequence[Row], version: str) -> bool:
    """Whether a launch under `version` goes without the row: other rows know that version, this one is not for it."""
    return version not in row.versions and any(version in other.versions for other in rows if other.required)


def _difference(source: Source, like: str, version: str, seen: str | None) -> str:
    if seen is None:
        return f"{source.target} is not in SGLang {version}"
    expected = source.fingerprints[like]
    same_as = [known for known, value in source.fingerprints.items() if value == seen]
    hint = f", which is {same_as[0]}'s" if same_as else ""
    return f"{source.target} has fingerprint {seen} in SGLang {version}{hint}, expected {expected} as in {like}"


def way_out(row: Row) -> str:
    """What a user can do about a row that does not fit."""
    install = f"install sglang=={row.versions[-1]} as published"
    if row.required:
        return install
    return f"{install}, or start without it: --set patches.{row.name}=false"
