"""The least that a proxy on the collector's stack can do: Starlette on uvicorn in front, aiohttp behind, bytes only.

python tests/benchmarks/proxy_pass_through.py --engine URL --port N
"""

import argparse
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


def build_app(engine: str) -> Starlette:
    """One route; what comes back is passed on as it comes."""
    sessions: list[aiohttp.ClientSession] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            sessions.append(session)
            yield

    async def completions(request: Request) -> Response:
        body = await request.body()
        answer = await sessions[0].post(
            f"{engine}/v1/chat/completions", data=body, headers={"content-type": "application/json"}
        )

        async def pieces() -> AsyncGenerator[bytes]:
            try:
                async for piece in answer.content.iter_any():
                    yield piece
            finally:
                answer.release()

        return StreamingResponse(pieces(), answer.status, media_type=answer.content_type)

    async def ready(_: Request) -> Response:
        return Response()

    return Starlette(
        routes=[Route("/v1/chat/completions", completions, methods=["POST"]), Route("/ready", ready)],
        lifespan=lifespan,
    )


def main() -> None:
    """Runs the proxy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", required=True)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    uvicorn.run(
        build_app(args.engine), port=args.port, log_config=None, access_log=False, loop="uvloop", http="httptools"
    )


if __name__ == "__main__":
    sys.exit(main())
