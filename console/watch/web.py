"""`roundhouse watch --web`: the console in a browser, on loopback, read only; `ssh -L` brings it elsewhere.

Each tab of the browser is a process of its own. There is no login, so pages of other sites must not reach it: a
request whose Host or Origin is not the address below is refused, and the page may load nothing from elsewhere.
"""

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

from collector.errors import UserError
from collector.listening import listen

HOST = "127.0.0.1"


class LoopbackServer(Server):
    """textual-serve, for requests from this machine that mean this server."""

    def __init__(self, command: str, port: int) -> None:
        super().__init__(command, host=HOST, port=port, title="roundhouse watch")
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        if port == 80:
            self._hosts |= {HOST, "localhost"}

    def initialize_logging(self) -> None:
        """None: what goes wrong is an answer or an error of the command."""

    def serve(self, debug: bool = False) -> None:  # noqa: ARG002
        """Serves until Ctrl-C. Whoever reads where it is finds it there: it listens before it says so."""
        with listen(HOST, self.port) as listener:
            listener.listen()
            loop = asyncio.new_event_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.request_exit)
            web.run_app(self._make_app(), sock=listener, handle_signals=False, loop=loop, print=None)

    async def on_startup(self, app: web.Application) -> None:
        """Says where it is."""
        del app
        print(f"roundhouse watch: http://{HOST}:{self.port}/ shows the console, read only; Ctrl-C ends it", flush=True)

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        app.on_response_prepare.append(self._narrow)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers only what was meant for this server: not a rebound name, not another site's page."""
        origin = request.headers.get("Origin")
        if request.host not in self._hosts or (
            origin is not None and origin.removeprefix("http://") not in self._hosts
        ):
            raise web.HTTPForbidden(text="roundhouse watch answers only pages of its own address\n")
        return await handler(request)

    async def _narrow(self, request: web.Request, response: web.StreamResponse) -> None:
        """The page loads nothing from elsewhere, and is shown in no other page."""
        own = f"ws://{request.host}"
        response.headers["Content-Security-Policy"] = (
            f"default-src 'self' 'unsafe-inline' data: blob:; connect-src 'self' {own}; frame-ancestors 'none'"
        )
        response.headers["X-Content-Type-Options"] = "nosniff"


def serve(words: Sequence[str], port: int) -> int:
    """Serves the console with these arguments of `roundhouse watch` until Ctrl-C."""
    if not 1 <= port <= 65535:
        raise UserError(f"--web is {port}, expected a port from 1 to 65535")
    command = shlex.join([sys.executable, "-m", "console.watch.web_app", *words])
    LoopbackServer(command, port).serve()
    return 0
