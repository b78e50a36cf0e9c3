"""Target, drafter and step costs as files: whole, with tokenizer and chat template, the drafter fitting."""

import json
from pathlib import Path

from k25serve.deploy.doctor.finding import Finding, ok, refused, skip
from k25serve.deploy.doctor.machine import Machine
from k25serve.server.config import Profile
from k25serve.server.engine.drafter import check_profile_drafter
from k25serve.server.engine.preflight import check_costs, check_model, check_tokenizer, weight_bytes
from k25serve.server.errors import UserError

TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")


def check(profile: Profile, _: Machine) -> list[Finding]:
    """The target first: without it the drafter can't be judged."""
    return [*_models(profile), _costs(profile)]


def _models(profile: Profile) -> list[Finding]:
    if profile.target.startswith("$"):
        name = profile.target.removeprefix("$")
        unset = Finding("target", "fail", f"the environment variable {name} is not set", f"export {name}=FOLDER")
        return [unset, skip("chat template", "no target"), skip("drafter", "no target")]
    try:
        check_model("target", profile.target)
        check_tokenizer("target", profile.target)
    except UserError as error:
        return [refused("target", error), skip("chat template", "no target"), skip("drafter", "no target")]
    size = weight_bytes(profile.target)
    return [
        ok("target", f"{profile.target}: whole, {size / 1e9:,.1f} GB"),
        _template(Path(profile.target)),
        _drafter(profile),
    ]


def _template(target: Path) -> Finding:
    if any((target / name).is_file() for name in TEMPLATE_FILES):
        return ok("chat template", f"{target} has one")
    try:
        config = json.loads((target / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Finding("chat template", "fail", f"{target}/tokenizer_config.json: {error}", "download the model again")
    if isinstance(config, dict) and config.get("chat_template"):
        return ok("chat template", f"{target}/tokenizer_config.json has one")
    return Finding(
        "chat template",
        "fail",
        f"{target} has none ({', '.join(TEMPLATE_FILES)}, or chat_template in tokenizer_config.json)",
        "download it with the model, or chat requests are refused",
    )


def _drafter(profile: Profile) -> Finding:
    try:
        told = check_profile_drafter(profile)
    except UserError as error:
        return refused("drafter", error)
    return skip("drafter", "the profile has none") if told is None else ok("drafter", told)


def _costs(profile: Profile) -> Finding:
    path = profile.speculation.adaptive
    if path is None:
        return skip("step costs", "speculation.adaptive is not set")
    try:
        check_costs(Path(path))
    except UserError as error:
        return refused("step costs", error)
    return ok("step costs", f"{path}: of every number of steps that it allows")
