"""What of a turn may reach the store: secrets are found off the event loop, and only what is left is recorded."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple, cast

import msgspec

from collector.privacy.config import OptOutConfig
from collector.privacy.detector import Detector, Secret
from collector.privacy.markers import Markers, texts_of
from collector.privacy.withheld import bare, without_tokens
from collector.records import ChatRequest, Event, Turn

_log = logging.getLogger(__name__)
_SESSIONS = 10_000
_SECRETS_A_SESSION = 100
_CLEAN = 10_000

UNREADABLE = (ValueError, RuntimeError, OSError, TypeError, OverflowError)
"""What a detector that cannot say raises: the text is then not stored at all."""


class Screened(NamedTuple):
    """A turn as it may be stored, and the event that says what was taken out."""

    turn: Turn
    event: Event | None


class RecordScreen:
    """Applies opt-outs and redaction to records. Secrets of a session are remembered, in memory only."""

    def __init__(self, opt_out: OptOutConfig, detector: Detector | None, decode: Callable[[list[int]], str]) -> None:
        """`decode` is ids to text: what was sampled is searched as it was sampled."""
        self._keep = opt_out.keep
        self._tenants = frozenset(opt_out.tenants)
        self._detector = detector
        self._decode = decode
        self._clean: set[str] = set()
        """Names and headers that were searched and hold no secret."""
        self._known: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="redact") if detector is not None else None

    @property
    def searches(self) -> bool:
        """Whether records are searched for secrets."""
        return self._detector is not None

    def close(self) -> None:
        """Ends the thread."""
        if self._workers is not None:
            self._workers.shutdown()

    def opts_out(self, tenant: str) -> bool:
        """Whether none of a tenant's turns are trained on."""
        return tenant in self._tenants

    def kept(self, turn: Turn) -> Turn:
        """What is stored of a turn that is not searched."""
        return bare(turn) if turn.untrainable_reason == "opted_out" and self._keep == "bare" else turn

    async def screened(self, turn: Turn) -> Screened:
        """What is stored of a turn, searched on another thread."""
        turn = self.kept(turn)
        known = self._known_of(turn)
        loop = asyncio.get_running_loop()
        screened, found = await loop.run_in_executor(self._workers, self._screen, turn, dict(known))
        known.update([(secret.text, secret.kind) for secret in found][: _SECRETS_A_SESSION - len(known)])
        return screened

    async def text(self, text: str | None) -> str | None:
        """A text that stands alone, such as a judgement's, with markers; None when it could not be searched."""
        if text is None or self._workers is None:
            return text
        found = await asyncio.get_running_loop().run_in_executor(self._workers, self._find, lambda: [text])
        if found is None:
            return None
        return Markers({secret.text: secret.kind for secret in found}).text(text)

    async def clean(self, name: str) -> bool:
        """Whether no secret was found in a name that is stored as it is.

        While the search fails names are taken: without its session a turn could not be stored at all.
        """
        if self._workers is None or name in self._clean:
            return True
        found = await asyncio.get_running_loop().run_in_executor(self._workers, self._find, lambda: [name])
        if found == []:
            self._keep_clean(name)
        return not found

    def _keep_clean(self, text: str) -> None:
        if len(self._clean) >= _CLEAN:
            self._clean.clear()
        self._clean.add(text)

    def _headers(self, turn: Turn) -> Turn:
        """The turn with markers in what its headers said. Its tokens hold nothing of them, so it is trained on."""
        for name in ("client", "task_id", "group_id"):
            said: str | None = getattr(turn, name)
            if said is None or said in self._clean:
                continue
            found = self._find(lambda said=said: [said])
            if found == []:
                self._keep_clean(said)
            else:
                kinds = {secret.text: secret.kind for secret in found or ()}
                turn = msgspec.structs.replace(turn, **{name: Markers(kinds).text(said) if kinds else None})
        return turn

    def _screen(self, turn: Turn, known: dict[str, str]) -> tuple[Screened, list[Secret]]:
        """What is stored, and the secrets that were found; `known` are those of the session's earlier turns."""
        turn = self._headers(turn)
        found = self._find(self._texts(turn))
        if found is None:
            return Screened(_withheld(bare(turn)), _event(turn, Counter({"turn that could not be searched": 1}))), []
        marked = _marked(turn, Markers(known | {secret.text: secret.kind for secret in found}))
        if found or turn.untrainable_reason == "redacted" or _texts_differ(marked, turn):
            kinds = Counter(each.kind for each in found)
            return Screened(_withheld(without_tokens(marked)), _event(turn, kinds)), found
        return Screened(turn, None), found

    def _texts(self, turn: Turn) -> Callable[[], list[str]]:
        def texts() -> list[str]:
            request = turn.request
            said = [] if request is None else [request.messages, request.tools, request.chat_template_kwargs]
            # Ids are searched too: a parser may leave out what was sampled, and a client may send ids alone.
            sampled = [self._decode(turn.completion_ids)] if turn.completion_ids else []
            prompt = [self._decode(turn.prompt_ids)] if request is None and turn.prompt_ids else []
            return [*texts_of([said, turn.response]), *prompt, *sampled]

        return texts

    def _find(self, texts: Callable[[], list[str]]) -> list[Secret] | None:
        assert self._detector is not None
        try:
            return self._detector.find(texts())
        except UNREADABLE as error:
            # Not the error's own words: they may quote what was searched.
            _log.error("a text could not be searched for secrets (%s), so it is not stored", type(error).__name__)
            return None

    def _known_of(self, turn: Turn) -> dict[str, str]:
        key = (turn.tenant, turn.session_id)
        known = self._known.setdefault(key, {})
        self._known.move_to_end(key)
        if len(self._known) > _SESSIONS:
            self._known.popitem(last=False)
        return known


def _marked(turn: Turn, markers: Markers) -> Turn:
    response = cast("dict[str, object] | None", markers.value(turn.response))
    request = turn.request
    if request is not None:
        request = msgspec.convert(markers.value(msgspec.structs.asdict(request)), ChatRequest)
    return msgspec.structs.replace(turn, request=request, response=response)


def _texts_differ(marked: Turn, turn: Turn) -> bool:
    return (marked.request, marked.response) != (turn.request, turn.response)


def _withheld(turn: Turn) -> Turn:
    return msgspec.structs.replace(turn, trainable=False, untrainable_reason="redacted")


def _event(turn: Turn, found: Counter[str]) -> Event:
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    return Event(
        at=datetime.now(UTC),
        kind="redacted",
        session_id=turn.session_id,
        turn=turn.turn,
        actor="collector",
        text=f"redacted: {said}" if found else "redacted: it repeats, or goes on from, what was redacted",
        detail={"turn_id": turn.turn_id, "secrets": dict(found)},
    )
