"""What the CPU reference replaces in SGLang, and the proof that it did.

Attributes are set directly. SGLang's HookRegistry must not be used here: where the original is None, as it is for
three of the sampling functions, it overwrites every module global that is None.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from importlib import import_module

from k25serve.patches.reference import backend, draft_backend, sampling

_BACKENDS = "sglang.srt.layers.attention.attention_registry"
_MLA_DISPATCH = "sglang.srt.models.deepseek_common.attention_backend_handler"
_DRAFT = "sglang.srt.speculative.draft_utils"
_VERIFY = "sglang.srt.speculative.eagle_utils"
ABSENT = "absent"


@dataclass(frozen=True)
class Replacement:
    """One name of SGLang. `holder`: dotted path inside `module` to a dict or class, or "" for the module itself.

    `original`: the parameters of the function that must be there before, or None, or ABSENT (no such entry).
    """

    module: str
    holder: str
    name: str
    new: Callable[..., object]
    original: tuple[str, ...] | str | None

    @property
    def target(self) -> str:
        return ".".join(part for part in (self.module, self.holder, self.name) if part)

    def read(self) -> object:
        """What SGLang has under this name now. Raises AttributeError if the holder is gone."""
        holder = self._holder()
        return holder.get(self.name, ABSENT) if isinstance(holder, dict) else getattr(holder, self.name, ABSENT)

    def write(self) -> None:
        """Replace it. Raises RuntimeError if the original is not what the reference was written for."""
        found = self.read()
        if found is self.new:
            return
        if callable(found):
            parameters = tuple(inspect.signature(found).parameters)
            as_expected = parameters == self.original
        else:
            parameters, as_expected = None, found == self.original
        if not as_expected:
            raise RuntimeError(f"{self.target}: expected {self.original}, found {parameters or found}")
        holder = self._holder()
        if isinstance(holder, dict):
            holder[self.name] = self.new
        else:
            setattr(holder, self.name, self.new)

    def _holder(self) -> object:
        path = self.holder.split(".") if self.holder else []
        return reduce(getattr, path, import_module(self.module))


def replacements() -> tuple[Replacement, ...]:
    """Every name that the reference replaces, in SGLang 0.5.23."""
    greedy = ("is_all_greedy", "is_cpu", "is_hip", "is_xpu", "use_rejection_sampling")
    return (
        Replacement(_BACKENDS, "ATTENTION_BACKENDS", "torch_native", backend.create_backend, ("runner",)),
        Replacement(
            _MLA_DISPATCH, "AttentionBackendRegistry._handlers", "torch_native", backend.always_absorbed_mla, ABSENT
        ),
        Replacement(
            _DRAFT, "DraftBackendFactory", "create_decode_backend", draft_backend.create_decode_backend, ("self",)
        ),
        Replacement(
            _DRAFT,
            "DraftBackendFactory",
            "create_draft_extend_backend",
            draft_backend.create_draft_extend_backend,
            ("self",),
        ),
        Replacement(_VERIFY, "", "_verify_uses_greedy", sampling.verify_uses_greedy, greedy),
        Replacement(_VERIFY, "", "top_k_renorm_prob", sampling.top_k_renorm_prob, None),
        Replacement(_VERIFY, "", "top_p_renorm_prob", sampling.top_p_renorm_prob, None),
        Replacement(
            _VERIFY, "", "tree_speculative_sampling_target_only", sampling.tree_speculative_sampling_target_only, None
        ),
    )


def install() -> None:
    """Replace every name, then verify. Raises RuntimeError or AttributeError naming the first that does not fit."""
    for row in replacements():
        row.write()
    verify()


def verify() -> None:
    """Check by identity that every replacement is in place. Raises RuntimeError naming the first that is not."""
    for row in replacements():
        found = row.read()
        if found is not row.new:
            raise RuntimeError(f"{row.target}: the replacement is not in place, found {found!r}")
