"""From the gateway over its log to rows that a drafter is trained on."""

import asyncio
import gzip

from k25serve.drafters.tiny import TARGET
from k25serve.drafters.training.data.files import found_files, read_rows
from k25serve.drafters.training.data.formats import read_row
from k25serve.drafters.training.data.options import DataOptions, Format, Thinking
from k25serve.drafters.training.data.pool import make_encoder

HISTORY = [
    {"role": "user", "content": "Add 1 and 2."},
    {"role": "assistant", "content": "Three, as someone else would say."},
    {"role": "user", "content": "And 3?"},
]


async def test_only_the_answers_are_learnt(recording, folder):
    async with recording(log={"max_bytes": 400}) as gateway:
        for stream in (True, False):
            sim = {"pieces": ["I add ", "them. ", "It is ", "six."], "accepted": [1, 1, 1], "reasoning_steps": 2}
            async with gateway.post(stream, sim=sim, messages=HISTORY, max_tokens=100) as response:
                await response.read()
    rotated, last = sorted(folder.iterdir())
    rotated.with_suffix(".jsonl.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()
    files = found_files([folder])
    assert [path.suffix for path in files] == [".gz", ".jsonl"]
    read = [read_row(row, Format.AUTO) for path in files for _, row in read_rows(path)]
    assert [form for form, _ in read] == [Format.OPENAI] * 2
    assert last.exists()
    first, second = (conversation for _, conversation in read)
    assert first == second
    assert first.messages[-1] == {"role": "assistant", "content": "It is six.", "reasoning_content": "I add them. "}

    def encoded():
        encoder = make_encoder(DataOptions(inputs=(folder,), thinking=Thinking.AS_IS), TARGET)
        return encoder, encoder.encode([first])[0]

    encoder, made = await asyncio.to_thread(encoded)
    (row,) = made.rows
    decode = encoder._tokenizer.decode
    learnt = decode([token for token, mask in zip(row.input_ids, row.loss_mask, strict=True) if mask])
    assert learnt.startswith("I add them. </think>")
    assert "It is six." in learnt
    assert "someone else" not in learnt
    assert "someone else" in decode(row.input_ids)
