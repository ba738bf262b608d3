"""Allocators that give back at once what is freed: a console stands open for days, and large frames come and go."""

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options of glibc's mallopt(3), as malloc.h numbers them."""
_LARGE = 1 << 16
"""Bytes from which on a piece of memory is the system's own, so that it goes back alone."""


def give_back_what_is_freed() -> None:
    """Settles it for this process; it is to be called before polars is loaded, whose own allocator reads it then."""
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, _LARGE)
        # Each thread would have a heap of its own, which what is left in it keeps from going back.
        library.mallopt(_M_ARENA_MAX, 1)
