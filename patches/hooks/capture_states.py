"""Row capture_states: the states that leave named layers of the target, and the last one, a file a request."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from k25serve.patches import fault
from k25serve.patches.context import Context
from k25serve.patches.hooks.capture_files import Batch, Part, StateWriter, to_host
from k25serve.patches.hooks.capture_limits import hindrance
from k25serve.patches.hooks.rank import this_rank

REPORT = "k25serve_capture_states"
"""Key of the row's report in `internal_states[0]` of GET /server_info."""
MARKER = "engine.json"
"""File in the directory that holds the same report without counts: who sees it sees the directory."""
HEADER = "states"
"""Entry of a file's header: JSON with `layers` and `last_layer`."""
DTYPE = torch.bfloat16
# A request asks for its states by its id. The digits at the end keep ids apart, and keep one from being the beginning
# of another, by which SGLang aborts. Safe as a file's name.
ASKS = re.compile(r"[a-z_]+-[0-9]+-[0-9a-f]{8}")


class CaptureStates:
    """Every rank runs the same forward; the first one writes."""

    def __init__(self, context: Context) -> None:
        self._directory = Path(str(context.options["directory"]))
        self._layers = read_layers(str(context.options["layers"]))
        self._version, self._device = context.here.version, context.here.device
        if not self._directory.is_absolute():
            raise ValueError(f"directory is '{context.options['directory']}'; give an absolute path")
        self._model: Any = None
        self._last: torch.Tensor | None = None
        self._about: dict[str, Any] = {}
        self._writer: StateWriter | None = None

    def load(self, original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `ModelRunner.load_model`: refuses before the load what could not be captured after it."""
        reason = hindrance(_arguments(), self._device == "cuda" and _prefill_graphs())
        if reason is not None:
            raise fault.stop(f"patch capture_states: {reason}")
        result = original(runner, *args, **kwargs)
        self._arm(runner.model)
        return result

    def forward(self, original: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `DeepseekV2Model.forward`; takes SGLang's own aux states away again, so that nothing else sees them.

        SGLang takes them as what enters a layer, once it is summed over the ranks.
        """
        batch = args[2] if len(args) > 2 else kwargs["forward_batch"]
        if model is not self._model or batch.forward_mode.name != "EXTEND" or not _asking(batch.rids):
            return original(model, *args, **kwargs)
        model.layers_to_capture = [layer + 1 for layer in self._layers]
        try:
            hidden, aux = original(model, *args, **kwargs)
            self._take(batch, aux)
        finally:
            model.layers_to_capture = []
            self._last = None
        return hidden

    def told(self, result: Any, *args: Any, **kwargs: Any) -> None:
        """After `Scheduler.get_internal_state`: GET /server_info has this row's report."""
        counts = {} if self._writer is None else self._writer.report()
        result.internal_state[REPORT] = {**self._about, **counts}

    def facts(self) -> dict[str, Any]:
        """Where the states go and which they are. Starts the writer on the first rank."""
        if this_rank().is_first:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                (self._directory / MARKER).write_text(json.dumps(self._about))
            except OSError as error:
                raise fault.stop(
                    f"patch capture_states: directory {self._directory} can't be written ({error.strerror}); "
                    "give another with --set patches.capture_states.directory=PATH"
                ) from error
            # One entry: safetensors writes several in any order, and the same states should be the same bytes.
            states = {name: self._about[name] for name in ("layers", "last_layer")}
            self._writer = StateWriter(self._directory, {HEADER: json.dumps(states)})
        return self._about

    def _arm(self, model: Any) -> None:
        self._model = text_model(model)
        count = len(self._model.layers)
        # What leaves the last layer is always taken, and SGLang has no layer that it would enter.
        if self._layers[-1] >= count - 1:
            raise fault.stop(
                f"patch capture_states: layers is '{_join(self._layers)}', the model's are 0 to {count - 1} and the "
                f"last one is always taken; name layers of 0 to {count - 2}"
            )
        self._model.norm.register_forward_hook(self._normed)
        self._about = {
            "directory": str(self._directory),
            "layers": list(self._layers),
            "last_layer": count - 1,
            "hidden_size": int(self._model.norm.weight.shape[-1]),
            "dtype": str(DTYPE).removeprefix("torch."),
            "sglang": self._version,
        }

    def _normed(self, norm: torch.nn.Module, given: tuple[Any, ...], result: Any) -> None:
        """The final norm adds the residual itself and returns the sum beside its own result."""
        if self._model.layers_to_capture:
            self._last = result[1] if isinstance(result, tuple) else given[0]

    def _take(self, batch: Any, aux: torch.Tensor) -> None:
        if self._writer is None:
            return
        parts, reason = split(batch.rids, batch.extend_seq_lens_cpu, batch.extend_prefix_lens_cpu)
        tokens = sum(batch.extend_seq_lens_cpu)
        assert self._last is not None, "SGLang's forward ended without the final norm"
        seen = [len(batch.input_ids), len(aux), len(self._last)]
        if reason is None and seen != [tokens] * 3:
            reason = f"{tokens} tokens, but {seen} ids and states"
        if reason is not None:
            self._writer.refuse([part.rid for part in parts], reason)
            return
        (ids, aux, last), arrived = to_host((batch.input_ids, aux, self._last), (torch.int64, DTYPE, DTYPE))
        self._writer.put(Batch(parts, ids, aux, last, arrived))


def read_layers(text: str) -> tuple[int, ...]:
    """Layers of "1,29,57". Raises ValueError unless they ascend, the order in which SGLang hands them over."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"layers is '{text}'; give the layers' numbers, counted from 0, as '1,29,57'")
    layers = tuple(int(number) for number in text.split(","))
    if list(layers) != sorted(set(layers)):
        raise ValueError(f"layers is '{text}'; give each once, in ascending order")
    return layers


def text_model(model: Any) -> Any:
    """The module that has the layers: behind Kimi-K2.5's wrapper, or of a plain DeepseekV3ForCausalLM."""
    found = getattr(getattr(model, "language_model", None) or model, "model", None)
    if not all(hasattr(found, name) for name in ("layers", "norm", "layers_to_capture")):
        raise fault.stop(
            f"patch capture_states: {type(model).__name__} has no layers that SGLang captures from, under "
            "language_model.model or model; serve a Kimi-K2.5 or DeepSeek-V3 target, or remove the row from patches"
        )
    return found


def split(rids: Sequence[str], lengths: Sequence[int], prefixes: Sequence[int]) -> tuple[list[Part], str | None]:
    """Which tokens of a batch belong to which asking request, in the batch's order; why they are not whole prompts."""
    parts, start, reason = [], 0, None
    for rid, length, prefix in zip(rids, lengths, prefixes, strict=True):
        if ASKS.fullmatch(rid):
            parts.append(Part(rid, start, start + length))
            if prefix:
                reason = f"{prefix} tokens of {rid} were computed before; send each id once"
        start += length
    return parts, reason


def _asking(rids: Sequence[str] | None) -> bool:
    return any(ASKS.fullmatch(rid) for rid in rids or ())


def _arguments() -> Mapping[str, Any]:
    from sglang.srt.runtime_context import get_context

    arguments: Mapping[str, Any] = get_context().resolved_server_args_dict()
    return arguments


def _prefill_graphs() -> bool:
    from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, check_cuda_graph_backend

    return not check_cuda_graph_backend(Phase.PREFILL, Backend.DISABLED)


def _join(layers: Sequence[int]) -> str:
    return ",".join(map(str, layers))
