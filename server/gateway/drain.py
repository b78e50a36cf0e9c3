"""The time between the word to stop and the end."""


class Drain:
    """Once begun, /ready says 503 so that a load balancer looks elsewhere; requests are served all the same."""

    def __init__(self) -> None:
        self.active = False

    def begin(self) -> None:
        self.active = True
