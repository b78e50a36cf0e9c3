"""Does a row fit an SGLang? Read off the source."""

from dataclasses import dataclass

from k25serve.patches.manifest.row import Row, Source
from k25serve.patches.manifest.trees import Tree, fingerprint_in


@dataclass(frozen=True)
class Misfit:
    """Why a row can't be applied to an SGLang, and what to do."""

    row: Row
    version: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"patch {self.row.name}: {self.what}; {self.remedy}"


def misfits(row: Row, tree: Tree) -> list[Misfit]:
    """Everything of `row` that the tree's SGLang lacks or has changed; empty where the row fits."""
    version = tree.version
    sources = row.sources_in(version)
    if not row.hooks_in(version):
        known = " and ".join(row.versions)
        return [Misfit(row, version, f"written for SGLang {known}, found {version}", way_out(row))]
    found = ((source, fingerprint_in(tree, source.target)) for source in sources)
    return [
        Misfit(row, version, _difference(row, source, version, seen), way_out(row))
        for source, seen in found
        if seen != source.fingerprints[version]
    ]


def _difference(row: Row, source: Source, version: str, seen: str | None) -> str:
    if seen is None:
        return f"{source.target} is not in SGLang {version}"
    expected = source.fingerprints[version]
    others = [known for known, value in source.fingerprints.items() if value == seen]
    like = f", which is that of {others[0]}" if others else ""
    return (
        f"{source.target} of SGLang {version} has fingerprint {seen}{like}, expected {expected}: "
        "the source is not the release's"
    )


def way_out(row: Row) -> str:
    """What a user can do about a row that does not fit."""
    install = f"install sglang=={row.versions[-1]} unmodified"
    if row.required:
        return install
    return f"{install}, or start without it: --set patches.{row.name}=false"
