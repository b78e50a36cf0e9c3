"""What the packaged pair can do: the numbers in its provenance, seen again on the held-out chats."""

import json

import torch
from reference_drafter.acceptance import merge, simulate
from reference_drafter.answers import answer_all
from reference_drafter.drafter import Drafter
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny import DRAFTER, TARGET, special_tokens
from k25serve.drafters.tiny.dataset import Encoder
from k25serve.drafters.tiny.held_out import held_out_prompts
from k25serve.drafters.tiny.load import load_vision_model
from k25serve.drafters.tiny.train_target import evaluate
from k25serve.drafters.tiny.train_vision import media_embeddings, paint
from k25serve.drafters.tiny.vision import IMAGE_TOKENS

KINDS = {"code": 12, "explain": 3, "arguments": 3, "tool": 4, "sum": 2}


def test_held_out_prompts_are_many_and_different() -> None:
    chats = held_out_prompts()
    assert {kind: sum(chat.kind == kind for chat in chats) for kind in KINDS} == KINDS
    assert len({json.dumps([chat.prompt, chat.tools]) for chat in chats}) == len(chats)
    assert {chat.thinking for chat in chats} == {True, False}


def test_loss_on_held_out_answers(target: DeepseekV3ForCausalLM, encoder: Encoder) -> None:
    recorded = json.loads((TARGET / "provenance.json").read_text())["target"]["loss"]["held_out_chats"]
    loss = evaluate(target, encoder.chats(held_out_prompts()), 2048, torch.device("cpu"))
    assert loss < 1.6 * recorded, "these chats are half code, which is harder than the recorded mixture"
    assert recorded < 1.5


def test_answers_end_and_are_drafted(target: DeepseekV3ForCausalLM, drafter: Drafter, encoder: Encoder) -> None:
    picked: dict[str, list[int]] = {}
    for chat in held_out_prompts():
        picked.setdefault(chat.kind, encoder.prompt_ids(chat))
    ends = (encoder.end, encoder.eos)
    prompts = list(picked.values())
    answers = dict(zip(picked, answer_all(target, prompts, ends, encoder.pad, 120), strict=True))
    texts = {kind: encoder.tokenizer.decode(answer) for kind, answer in answers.items()}
    assert all(text.endswith(special_tokens.IM_END) for text in texts.values()), texts
    assert "```python\ndef write(" in texts["code"]
    assert "It takes" in texts["arguments"]
    accepted = merge([simulate(drafter, target, picked[kind], answers[kind]) for kind in picked])
    recorded = json.loads((DRAFTER / "provenance.json").read_text())["training"]["result"]["held_out"]["accept_length"]
    assert recorded > 2.5
    assert accepted.accept_length > 2.0


def test_a_tool_is_called(target: DeepseekV3ForCausalLM, encoder: Encoder) -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
    text = encoder.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the weather in Paris?"}],
        tools=[tool],
        tokenize=False,
        add_generation_prompt=True,
    )
    prompt = encoder.tokenizer.encode(str(text))
    answer = answer_all(target, [prompt], (encoder.end,), encoder.pad, 80)[0]
    assert encoder.tokenizer.decode(answer) == (
        "The user asks for the weather in Paris. I call `get_weather` once.</think><|tool_calls_section_begin|>"
        '<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|>'
        "<|tool_calls_section_end|><|im_end|>"
    )


@torch.no_grad()
def test_a_colour_is_seen(target: DeepseekV3ForCausalLM, encoder: Encoder) -> None:
    vision, media_pad = load_vision_model(), encoder.tokenizer.convert_tokens_to_ids(special_tokens.MEDIA_PAD)
    media = special_tokens.MEDIA + "image" + special_tokens.MEDIA_CONTENT
    media += special_tokens.MEDIA_PAD * IMAGE_TOKENS + special_tokens.MEDIA_END
    text = (
        f"<|im_user|>user<|im_middle|>{media}What colour is this image?<|im_end|>"
        "<|im_assistant|>assistant<|im_middle|><think></think>The image is"
    )
    colours = ["red", "green", "blue", "black", "white", "yellow"]
    ids = torch.tensor([encoder.tokenizer.encode(text)] * len(colours))
    images = vision(paint(colours, torch.Generator().manual_seed(5)))
    logits = target(inputs_embeds=media_embeddings(target, ids, images, media_pad)).logits[:, -1]
    assert [encoder.tokenizer.decode(best).strip() for best in logits.argmax(-1)] == colours
