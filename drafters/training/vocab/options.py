"""What `drafter train vocab` can be told."""

from pydantic import Field

from k25serve.drafters.training.settings import Settings


class VocabOptions(Settings):
    """draft_vocab_size: entries of the drafter's head; None: the target's whole vocabulary."""

    draft_vocab_size: int | None = Field(default=32000, ge=1)
