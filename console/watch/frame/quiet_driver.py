"""Textual's driver for a terminal, but its thread for keys sleeps while none come and does not look now and then.

A console stands open for days: ten looks a second are most of what it costs while nothing happens.
"""

import os
import select
import signal
import threading
import time
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

_TICK_S = 0.1
"""A lone Escape is told from the beginning of a longer sequence by what does not follow within this time."""
_TICKS_S = 1.0
"""After so long without keys nothing that began is unfinished."""
_CHUNK = 4096
_HANGUP = 128 + signal.SIGHUP


class _Waking(threading.Event):
    """An event that wakes who waits for input too."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptor, self._write = os.pipe()

    def set(self) -> None:
        """Makes the descriptor readable."""
        if not self.is_set():
            os.write(self._write, b".")
        super().set()

    def clear(self) -> None:
        """Makes it silent again."""
        if self.is_set():
            os.read(self.descriptor, 1)
        super().clear()

    def __del__(self) -> None:
        os.close(self.descriptor)
        os.close(self._write)


class QuietDriver(LinuxDriver):
    """The same terminal."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._waking = _Waking()
        self.exit_event = self._waking

    def run_input_thread(self) -> None:
        """Reads keys until input is disabled; ends the console where the terminal is gone."""
        parser, decode = XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
        ticks_until = 0.0
        while not self.exit_event.is_set():
            wait_s = _TICK_S if time.monotonic() < ticks_until else None
            if self.fileno in select.select([self.fileno, self._waking.descriptor], [], [], wait_s)[0]:
                content = self._read()
                if not content:
                    self._app.call_later(self._app.exit, return_code=_HANGUP)
                    return
                if text := decode(content):
                    for message in parser.feed(text):
                        self.process_message(message)
                ticks_until = time.monotonic() + _TICKS_S
            for message in parser.tick():
                self.process_message(message)
        # What the terminal still answers would else be read by the shell.
        if select.select([self.fileno], [], [], _TICK_S)[0]:
            self._read()

    def _read(self) -> bytes:
        """What was typed; nothing where there is no terminal any more."""
        try:
            return os.read(self.fileno, _CHUNK)
        except OSError:
            return b""
