"""The tokenizer: a byte-level BPE of about 2,000 entries that plain transformers loads, special tokens at its end."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from k25serve.drafters.tiny import special_tokens as st
from k25serve.drafters.tiny.template import CHAT_TEMPLATE

VOCAB_SIZE = 2048


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train on `texts`; the special tokens take the last ids, in their fixed order.

    Digits are split one by one, so that sums can be learnt. Raises ValueError when the texts are too few.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(  # type: ignore[no-untyped-call]
        vocab_size=VOCAB_SIZE - len(st.ALL),
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in st.CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in st.MARKERS])
    size = tokenizer.get_vocab_size()
    if size != VOCAB_SIZE:
        raise ValueError(
            f"the tokenizer has {size} entries, not {VOCAB_SIZE}: the corpus is too small, read more files"
        )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": st.BOS,
        "eos_token": st.EOS,
        "pad_token": st.PAD,
        "unk_token": st.UNK,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
