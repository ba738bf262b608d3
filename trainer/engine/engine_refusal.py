"""What the engine says when it will not do what was asked."""


class EngineRefusal(Exception):
    """A request that cannot be served: found, expected, what to do. `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
