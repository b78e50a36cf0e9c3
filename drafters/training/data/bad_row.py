"""A row that cannot be used: what is wrong, and how to mend it."""

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.settings import shown


class BadRow(TrainingError):
    """`reason` is counted in the report; the line names field, value and remedy. Its place is added by the reader."""

    def __init__(self, reason: str, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} is {shown(value)}; {remedy}")
        self.reason = reason
