"""What `drafter train fit` is asked for. configs/*.yaml hold whole sets."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from k25serve.drafters.training.settings import Settings

Size = Annotated[int, Field(ge=1)]
Losses = Literal["kl_div", "rkl", "jsd", "ce", "tv", "nla", "lk_hybrid"]


class DraftLayer(Settings):
    """The drafter's one Llama layer; hidden_size and vocab_size are the target's. Names as in Llama's config.json."""

    intermediate_size: Size
    num_attention_heads: Size
    num_key_value_heads: Size
    head_dim: Size
    rope_theta: Annotated[float, Field(gt=0)]
    max_position_embeddings: Size
    rms_norm_eps: Annotated[float, Field(gt=0, lt=1)] = 1e-6

    @model_validator(mode="after")
    def _heads_share_keys(self) -> "DraftLayer":
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is no multiple of num_key_value_heads "
                f"{self.num_key_value_heads}: choose numbers that divide"
            )
        return self


class Init(Settings):
    """Where the weights start.

    kind: `scratch`, or `warm` from `drafter`, a folder in SGLang's layout. For scratch: head `target`: the target's own
    rows; fc `last`: passes the last of the aux states on as it is; norm `target`: the target's final norm.
    """

    kind: Literal["scratch", "warm"] = "scratch"
    drafter: Path | None = None
    head: Literal["target", "random"] = "target"
    fc: Literal["last", "random"] = "last"
    norm: Literal["target", "ones"] = "target"

    @model_validator(mode="after")
    def _folder_where_warm(self) -> "Init":
        if (self.kind == "warm") != (self.drafter is not None):
            raise ValueError("init.drafter names the folder of kind warm, and only of that; give both or neither")
        return self


class Optimizer(Settings):
    """`muon`: for the layer's matrices and fc, with `muon_learning_rate` (or the same); AdamW for the rest.

    The rate rises over `warmup` and falls to `floor` of itself, both shares; `schedule` says how it falls.
    """

    name: Literal["adamw", "muon"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0, le=1)]
    muon_learning_rate: Annotated[float, Field(gt=0, le=1)] | None = None
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.1
    gradient_clip: Annotated[float, Field(gt=0)] = 1.0
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.03
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0


class FitOptions(Settings):
    """`loss`: a name, or weights by name. `step_decay`: weight of each draft step's loss against the one before.

    The end is what comes first of `max_steps`, `epochs` and `max_minutes`. With minutes the result depends on the
    machine's speed; with the others alone it is the same, killed or not. `tokens_per_batch`: on each GPU; longer
    documents are cut there. `train_head`: whether lm_head is trained, or stays what `init` makes it.
    `precision` auto: bf16 on a GPU, fp32 on a CPU. `attention` auto: speculators' own forward with flex attention on a
    GPU, by document on a CPU. `verify`: how the captured files are compared with what was sealed, at the
    start. `final`: the last weights, or those with the best accept_length on held_out.
    """

    draft_layer: DraftLayer
    optimizer: Optimizer
    init: Init = Init()
    ttt_steps: Annotated[int, Field(ge=1, le=16)] = 3
    loss: Losses | dict[Losses, Annotated[float, Field(gt=0)]] = "kl_div"
    step_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    train_head: bool = True
    max_steps: Size | None = None
    epochs: Size | None = None
    max_minutes: Annotated[float, Field(gt=0)] | None = None
    tokens_per_batch: Annotated[int, Field(ge=16)]
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Size | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    attention: Literal["auto", "documents", "flex"] = "auto"
    verify: Literal["hash", "size"] = "size"
    loader_workers: Annotated[int, Field(ge=0, le=64)] = 0
    evaluate_every: Size = 500
    draft_steps: Annotated[int, Field(ge=1, le=16)] = 3
    checkpoint_every_steps: Size | None = None
    checkpoint_every_seconds: Annotated[float, Field(gt=0)] | None = 60.0
    final: Literal["last", "best"] = "last"

    @model_validator(mode="after")
    def _ends_at_last(self) -> "FitOptions":
        if self.max_steps is None and self.epochs is None and self.max_minutes is None:
            raise ValueError("max_steps, epochs and max_minutes are all missing: training would not end; give one")
        return self
