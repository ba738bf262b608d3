"""A webhook as a target of notices: POST of JSON, tried again while that may help."""

import asyncio
import math
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp

from checks.alerting.config import DeliveryConfig
from collector.errors import UserError

_AGAIN = (408, 425, 429)
"""Refusals that pass, beside those of 500 and above."""


class Webhook:
    """One URL. Of it only scheme and host are ever said: its path may be a secret."""

    def __init__(self, config: DeliveryConfig) -> None:
        url = config.webhook or ""
        try:
            parts = urlsplit(url)
            named = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
        except ValueError:
            named = False
            parts = urlsplit("")
        if not named or not url.isascii() or not url.isprintable():
            raise UserError(
                "[checks.alerts.delivery] webhook: expected an http or https URL; its text is not shown here"
            )
        for name, value in config.webhook_headers.items():
            if not (name.isascii() and name.isprintable() and value.isprintable() and name):
                raise UserError(f"[checks.alerts.delivery] webhook_headers: {name!r} is no header; remove it")
        if config.attempts < 1 or not 0 < config.timeout_s < math.inf or not 0 <= config.backoff_s < math.inf:
            raise UserError("[checks.alerts.delivery]: expected attempts from 1, timeout_s above 0, backoff_s from 0")
        self._url = url
        self._where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        self._config = config

    def send(self, body: bytes, wait: Callable[[float], bool]) -> str | None:
        """Posts it until it is taken, refused for good, or was tried often enough."""
        failure = "not tried"
        for attempt in range(self._config.attempts):
            if attempt and wait(self._config.backoff_s * 2 ** (attempt - 1)):
                return f"{self._where} {failure}; not tried again"
            failure, again = asyncio.run(self._post(body))
            if failure is None or not again:
                break
        return None if failure is None else f"{self._where} {failure}"

    async def _post(self, body: bytes) -> tuple[str | None, bool]:
        """What went wrong, and whether another try may help. Errors are named by kind: their text may hold the URL."""
        timeout = aiohttp.ClientTimeout(total=self._config.timeout_s)
        headers = {"Content-Type": "application/json", **self._config.webhook_headers}
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, data=body, headers=headers, allow_redirects=False) as reply,
            ):
                status = reply.status
        except TimeoutError:
            return f"did not answer within {self._config.timeout_s:g} s", True
        except aiohttp.ClientConnectorError as error:
            return f"cannot be reached: {error.os_error.strerror or type(error.os_error).__name__}", True
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f"cannot be posted to: {type(error).__name__}", True
        if 200 <= status < 300:
            return None, False
        return f"answered {status}", status >= 500 or status in _AGAIN
