"""What a rank tells its launcher, one JSON object a line, through a pipe of its own (stdout belongs to libraries)."""

import os
from typing import Any

import orjson

PIPE = "K25SERVE_COMM_PIPE"


class Teller:
    """A rank's end of the pipe."""

    def __init__(self) -> None:
        self._pipe = int(os.environ[PIPE])

    def stage(self, text: str) -> None:
        """What the rank does next; if it hangs there, this is what the report says."""
        self.tell(stage=text)

    def tell(self, **message: Any) -> None:
        """One message."""
        os.write(self._pipe, orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
