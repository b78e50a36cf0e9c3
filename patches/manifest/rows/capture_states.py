"""The target's hidden states, as training wants them."""

from k25serve.patches.manifest.row import Hook, Option, Row, Source

_MODEL = "sglang.srt.models.deepseek_v2"
_BOUNDARY = "sglang.srt.layers.layer_boundary"

ROW = Row(
    name="capture_states",
    code="k25serve.patches.hooks.capture_states:CaptureStates",
    hooks=(
        Hook(
            "sglang.srt.model_executor.model_runner.ModelRunner.load_model",
            {"0.5.17": "e7c77b694ffa1974", "0.5.23": "f93d7ba2a079a9f4"},
            "around",
            "load",
        ),
        Hook(
            f"{_MODEL}.DeepseekV2Model.forward",
            {"0.5.17": "b8de0915729a2756", "0.5.23": "a502185c79186a67"},
            "around",
            "forward",
        ),
        Hook(
            "sglang.srt.managers.scheduler.Scheduler.get_internal_state",
            {"0.5.17": "a2a75e073317cb5d", "0.5.23": "e9d118eeaccc0290"},
            "after",
            "told",
        ),
    ),
    relies_on=(
        Source(
            f"{_MODEL}.DeepseekV2DecoderLayer.forward", {"0.5.17": "1675fc85a1ff0eba", "0.5.23": "42d7092c8bf6759b"}
        ),
        Source(f"{_MODEL}.DeepseekV2ForCausalLM.forward", {"0.5.17": "d31dd923049f7c52", "0.5.23": "94961b0805cffc20"}),
        Source(
            "sglang.srt.layers.aux_hidden_states.AuxHiddenStatePacker",
            {"0.5.17": "45811ee3ba0cc4c8", "0.5.23": "9b48d2b5af1ec813"},
        ),
        Source(
            "sglang.srt.layers.communicator.LayerCommunicator.prepare_attn_and_capture_last_layer_outputs",
            {"0.5.17": "82ae5191af33f4fb"},
        ),
        Source(
            "sglang.srt.layers.communicator.LayerCommunicator.should_fuse_mlp_allreduce_with_next_layer",
            {"0.5.17": "df65bb49263ca305"},
        ),
        Source(f"{_BOUNDARY}.stage.StageBoundary._prepare_attention", {"0.5.23": "b99d18e374187a83"}),
        Source(f"{_BOUNDARY}.residual.batch.final_norm", {"0.5.23": "ce1b71903910e0f4"}),
        Source(f"{_BOUNDARY}.residual.access.final_norm_pair", {"0.5.23": "24ad069f00f8516e"}),
        Source(
            "sglang.srt.runtime_context.RuntimeContext.resolved_server_args_dict",
            {"0.5.17": "f1f1a90d5fda2914", "0.5.23": "66d2e8986d7a9da4"},
        ),
    ),
    reason="A drafter is trained on what the served model computes: the states that leave three of its layers and the "
    "last one, before the final norm. Written during prefill, a file a request, for requests that ask for it by their "
    "id. The states come the way that SGLang's own EAGLE-3 takes them: after the sum over ranks that a layer leaves "
    "to the next one's norm.",
    upstream="none: return_hidden_states gives the last layer alone, over HTTP, as JSON",
    remove_when="SGLang writes the states of named layers to files",
    default=False,
    options=(
        Option("directory", "", "absolute path of the folder that the files go to"),
        Option(
            "layers", "", 'the layers, counted from 0, whose outputs are taken: "1,29,57"; the last is always taken'
        ),
    ),
)
