"""Training text for the drafter by the target itself: a drafter learns best from what it will be asked to draft."""

import random
from collections.abc import Sequence

from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny.answers import answer_all
from k25serve.drafters.tiny.chat import Chat
from k25serve.drafters.tiny.dataset import LENGTHS, Dataset, Encoder
from k25serve.drafters.tiny.progress import Progress

LONGEST_PROMPT = 384
TEMPERATURE = 0.8


def regenerate(
    model: DeepseekV3ForCausalLM,
    encoder: Encoder,
    chats: Sequence[Chat],
    batch_size: int,
    answer_tokens: int,
    seed: int,
) -> Dataset:
    """Let the target answer each chat's prompt; half of the batches greedily, half sampled at TEMPERATURE.

    An answer that does not end within `answer_tokens` is kept as it is. Only what the target wrote counts in the
    loss. Prompts above LONGEST_PROMPT tokens are left out.
    """
    prompts = sorted((encoder.prompt_ids(chat) for chat in chats), key=len)
    prompts = [p for p in prompts if len(p) <= LONGEST_PROMPT]
    groups = [prompts[i : i + batch_size] for i in range(0, len(prompts), batch_size)]
    random.Random(seed).shuffle(groups)
    data, progress = Dataset(encoder.pad), Progress("regenerate", len(groups))
    for done, group in enumerate(groups, 1):
        temperature = TEMPERATURE if done % 2 == 0 else 0.0
        answers = answer_all(model, group, (encoder.end, encoder.eos), encoder.pad, answer_tokens, temperature)
        for prompt, answer in zip(group, answers, strict=True):
            length = next(n for n in LENGTHS if len(prompt) + len(answer) <= n)
            data.add(prompt + answer, [False] * len(prompt) + [True] * len(answer), length)
        progress.step(done, f"{data.loss_tokens} tokens")
    return data
