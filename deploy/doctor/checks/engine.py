"""SGLang itself: its version, and which patches fit it."""

from k25serve.deploy.doctor.finding import Finding, ok, refused, skip
from k25serve.deploy.doctor.machine import Machine
from k25serve.patches.manifest import ROWS
from k25serve.patches.manifest.judge import is_left_out, misfits
from k25serve.patches.manifest.modules import Modules
from k25serve.patches.manifest.switches import SwitchError, choose
from k25serve.patches.manifest.trees import Installed, TreeError
from k25serve.server.config import Profile
from k25serve.server.engine.preflight import check_compiler, check_sglang
from k25serve.server.errors import UserError


def check(profile: Profile, _: Machine) -> list[Finding]:
    """Version as the profile asks for; every row that is on fits the installed source."""
    try:
        check_sglang(profile)
        check_compiler(profile)
    except UserError as error:
        return [refused("sglang", error), skip("patches", "no SGLang that this profile runs on")]
    return [ok("sglang", f"SGLang {profile.engine.version}, as the profile asks for"), *_patches(profile)]


def _patches(profile: Profile) -> list[Finding]:
    try:
        modules = Modules(Installed.find())
        chosen = choose(ROWS, profile.switches, modules.version, profile.engine.device)
        found = [
            Finding("patches", "fail", f"patch {misfit.row.name}: {misfit.what}", misfit.remedy)
            for item in chosen
            for misfit in misfits(item.row, modules)
        ]
    except (SwitchError, TreeError) as error:
        return [Finding("patches", "fail", str(error), "correct the profile's patches; k25serve patches list has them")]
    left = [row.name for row in ROWS if is_left_out(row, ROWS, modules.version)]
    told = f"these fit SGLang {modules.version}: {', '.join(item.row.name for item in chosen)}"
    return found or [ok("patches", f"{told}; not for it: {', '.join(left)}" if left else told)]
