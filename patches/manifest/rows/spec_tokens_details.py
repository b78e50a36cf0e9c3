"""Acceptance of each request, for streams too."""

from k25serve.patches.manifest.row import Hook, Row, Source

_MANAGER = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
_CHAT = "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat"
_TEXT = "sglang.srt.entrypoints.openai.serving_completions.OpenAIServingCompletion"

ROW = Row(
    name="spec_tokens_details",
    code="k25serve.patches.hooks.spec_tokens_details:SpecTokensDetails",
    hooks=(
        Hook(f"{_MANAGER}.generate_request", {"0.5.17": "943e27b9bd7aca69"}, "around", "generate", "main"),
        Hook(f"{_CHAT}._generate_chat_stream", {"0.5.17": "d11a9768542c328f"}, "around", "stream", "main"),
        Hook(f"{_CHAT}._handle_non_streaming_request", {"0.5.17": "12da10f9642702d1"}, "around", "whole", "main"),
        Hook(f"{_TEXT}._generate_completion_stream", {"0.5.17": "e5c895c2455cbcf6"}, "around", "stream", "main"),
        Hook(f"{_TEXT}._handle_non_streaming_request", {"0.5.17": "8e7fe507df185114"}, "around", "whole", "main"),
    ),
    relies_on=(Source(f"{_MANAGER}._calculate_spec_decoding_metrics", {"0.5.17": "4c156f567e400611"}),),
    reason="0.5.17 does not know return_spec_tokens_details, and its return_meta_info refuses to stream, so the "
    "gateway could count no acceptance. The field works there as it does in 0.5.23.",
    upstream="in SGLang since 0.5.21 at the latest",
    remove_when="0.5.17 is no longer supported",
)
