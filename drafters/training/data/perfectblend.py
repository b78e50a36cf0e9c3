"""mlabonne/open-perfectblend's format: ShareGPT's, with the data set that each row came from in `source`.

https://huggingface.co/datasets/mlabonne/open-perfectblend names the eight sources.
"""

from typing import Any

from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.conversation import Conversation
from k25serve.drafters.training.data.sharegpt import read_sharegpt


def read_perfectblend(row: dict[str, Any]) -> Conversation:
    """Raises BadRow with the field that is wrong."""
    source = row.get("source")
    if not isinstance(source, str) or not source:
        raise BadRow("source", "source", source, "the name of a data set belongs there, or use --format sharegpt")
    return read_sharegpt(row)
