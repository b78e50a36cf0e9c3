"""The tokens that the chat format is made of, with Kimi's spellings.

Control tokens are `special`: a server's `skip_special_tokens` removes them from text. The think and tool-call markers
are not, as in Kimi's tokenizer, because reasoning and tool-call parsers read them in the decoded text.
"""

BOS = "[BOS]"
EOS = "[EOS]"
PAD = "[PAD]"
UNK = "[UNK]"
IM_END = "<|im_end|>"
IM_USER = "<|im_user|>"
IM_ASSISTANT = "<|im_assistant|>"
IM_SYSTEM = "<|im_system|>"
IM_MIDDLE = "<|im_middle|>"
THINK = "<think>"
THINK_END = "</think>"
TOOL_SECTION = "<|tool_calls_section_begin|>"
TOOL_SECTION_END = "<|tool_calls_section_end|>"
TOOL_CALL = "<|tool_call_begin|>"
TOOL_ARGUMENTS = "<|tool_call_argument_begin|>"
TOOL_CALL_END = "<|tool_call_end|>"
MEDIA = "<|media_begin|>"
MEDIA_CONTENT = "<|media_content|>"
MEDIA_END = "<|media_end|>"
MEDIA_PAD = "<|media_pad|>"

CONTROL: tuple[str, ...] = (
    BOS,
    EOS,
    PAD,
    UNK,
    IM_END,
    IM_USER,
    IM_ASSISTANT,
    IM_SYSTEM,
    IM_MIDDLE,
    MEDIA,
    MEDIA_CONTENT,
    MEDIA_END,
    MEDIA_PAD,
)
MARKERS: tuple[str, ...] = (
    THINK,
    THINK_END,
    TOOL_SECTION,
    TOOL_SECTION_END,
    TOOL_CALL,
    TOOL_ARGUMENTS,
    TOOL_CALL_END,
)
ALL: tuple[str, ...] = CONTROL + MARKERS
