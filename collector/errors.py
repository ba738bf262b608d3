"""Errors that cross module borders. A message says what was found, what was expected and what to do."""


class UserError(Exception):
    """Someone else's mistake: printed as one line, without a traceback; the command exits with 2."""


class StoreError(UserError):
    """The store cannot do what was asked: locked, damaged, read-only, full or of another schema version."""


class RecordRefused(StoreError):
    """A record holds a value that its column cannot; the store is well, and the same record is refused again."""


class EngineError(Exception):
    """The engine refused, failed, or broke its contract. `status` is its HTTP status; None when none came."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class EngineUnavailable(EngineError):
    """The engine could not be reached or stopped answering: nothing was sampled, or the reply was cut off."""
