"""Where a profile's models are: the packaged ones, a variable's folder, a folder below home."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k25serve.drafters.tiny import DRAFTER, TARGET
from k25serve.server.config.shown import shown
from k25serve.server.errors import ConfigError

PACKAGED = {"packaged:target": TARGET, "packaged:drafter": DRAFTER}
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))(/.*)?", re.ASCII | re.DOTALL)


def resolve_model(data: dict[str, Any], keys: tuple[str, ...], environ: Mapping[str, str], need_models: bool) -> None:
    """Put the folder in the place of what `data` says at `keys`; load_profile tells the forms and the error."""
    *parents, leaf = keys
    for parent in parents:
        data = data.get(parent) or {}
    value = data.get(leaf) if isinstance(data, dict) else None
    if isinstance(value, str):
        data[leaf] = _folder(".".join(keys), value, environ, need_models)


def _folder(field: str, value: str, environ: Mapping[str, str], need_models: bool) -> str:
    if value.startswith("packaged:"):
        if value not in PACKAGED:
            raise ConfigError(f"{field} {shown(value)}: nothing of that name; packaged are {' and '.join(PACKAGED)}")
        return str(PACKAGED[value])
    if value.startswith("$"):
        match = VARIABLE.fullmatch(value)
        if match is None:
            raise ConfigError(f"{field} {shown(value)}: write a variable as $NAME, ${{NAME}} or $NAME/FOLDER")
        name = match[1] or match[2]
        folder = environ.get(name)
        if not folder:
            if not need_models:
                return value
            raise ConfigError(
                f"{field}: environment variable {name} is not set; "
                f"export it with the model's folder, or pass --set {field}=FOLDER"
            )
        value = folder + (match[3] or "")
        if not value.isprintable():
            raise ConfigError(f"{field} = {shown(value)}, from {name}: holds characters that are no text; rename it")
    if not value.startswith("~"):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError:
        raise ConfigError(f"{field} {shown(value)}: there is no such user's home; give the whole path") from None
