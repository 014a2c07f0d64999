"""What goes wrong, as exceptions."""
from __future__ import annotations

from ._library import lib


class NibbleError(RuntimeError):
    """A call failed; the message is one line that says what, where and what to do."""

    status = 1


class UsageError(NibbleError, ValueError):
    """The arguments were wrong."""

    status = 2


class InvalidModelError(NibbleError):
    """A file of a model, or a data file, is malformed or unsupported."""

    status = 3


class OutOfMemoryError(NibbleError, MemoryError):
    """There is not enough memory for what was asked."""

    status = 4


class FileError(NibbleError, OSError):
    """A file cannot be read or written."""

    status = 5


class IntegrityError(NibbleError):
    """Stored data contradict each other."""

    status = 6


class CancelledError(NibbleError):
    """The call was cancelled."""

    status = 8


_BY_STATUS = {kind.status: kind for kind in (NibbleError, UsageError, InvalidModelError, OutOfMemoryError, FileError,
                                             IntegrityError, CancelledError)}


def check(status: int) -> None:
    """Raises what a status of this thread's last call means."""
    if status != 0:
        raise _BY_STATUS.get(status, NibbleError)(lib.nibble_last_error().decode(errors="replace"))
