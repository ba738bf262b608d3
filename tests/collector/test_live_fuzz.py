"""Flow: a live collector under requests of every sort: none is answered 500, none hangs, no record is lost.

Requests are made from the published document by schemathesis, and from strategies of our own: odd JSON, odd texts, odd
headers, odd framings. Whatever was answered with 2xx is in the store once, and what was in the headers is nowhere.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from collector.openapi import document
from tests.collector.fuzz.bodies import BY_PATH, SESSION, TEXT, mostly
from tests.collector.fuzz.live import Asked, Live, live_collector
from tests.collector.fuzz.raw_http import FRAMINGS

# What failed is told as it was sent: smaller requests would meet a collector in another state.
QUIET = settings(deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))

HEADERS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["x-session-id", "session-id", "x-claude-code-session-id"]), SESSION),
        st.tuples(st.just("x-stainless-retry-count"), st.sampled_from(["0", "1", "-1", "²", "1e3", "9" * 400])),
        st.tuples(st.just("x-roundhouse-purpose"), st.sampled_from(["traffic", "eval", "probe"] * 4 + ["nothing"])),
        st.tuples(st.just("x-roundhouse-train"), st.sampled_from(["yes", "no"] * 4 + ["perhaps"])),
        st.tuples(st.sampled_from(["x-roundhouse-task", "x-roundhouse-group", "user-agent", "content-type"]), TEXT),
    ),
    max_size=2,
)
PATHS = st.sampled_from(sorted(BY_PATH))


def asked(framing: st.SearchStrategy[str]) -> st.SearchStrategy[Asked]:
    """One request to any path that takes a body."""
    return PATHS.flatmap(lambda path: st.builds(Asked, st.just(path), HEADERS, mostly(BY_PATH[path]), framing))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with live_collector(tmp_path) as live:
        yield live


def send_odd_bodies(live: Live, examples: int) -> None:
    @settings(QUIET, max_examples=examples)
    @given(st.lists(asked(st.just("plain")), min_size=4, max_size=12))
    def send(requests: list[Asked]) -> None:
        # The second time the conversations are there already: they go on, are sampled again, or are retries.
        live.ask(requests)
        live.ask([each._replace(headers=[*each.headers, ("x-stainless-retry-count", "1")]) for each in requests])

    send()


def send_odd_framings(live: Live, examples: int) -> None:
    framing = st.sampled_from(FRAMINGS)

    @settings(QUIET, max_examples=examples)
    @given(st.lists(asked(framing), min_size=4, max_size=8))
    def send(requests: list[Asked]) -> None:
        live.ask(requests)

    send()


def send_from_the_document(live: Live, examples: int) -> None:
    """Valid and invalid requests as schemathesis makes them; half of the valid ones name a model that is served."""
    schemathesis = pytest.importorskip("schemathesis", reason="NOT TESTED, the document: schemathesis is missing")
    from schemathesis.generation import GenerationMode

    schema: Any = schemathesis.openapi.from_dict(document())
    for path, methods in document()["paths"].items():
        for method in methods:
            for mode in GenerationMode:
                strategy = schema[path][method.upper()].as_strategy(generation_mode=mode)
                # There is no invalid request for a path that takes nothing.
                with suppress(*([Unsatisfiable] if method == "get" else [])):
                    _send_cases(live, path, strategy, examples if method == "post" else 5)


def _send_cases(live: Live, path: str, strategy: Any, examples: int) -> None:
    import requests

    @settings(QUIET, max_examples=examples)
    @given(case=strategy, named=st.booleans())
    def send(case: Any, named: bool) -> None:
        if named and isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = "model"
        try:
            answer = case.call(base_url=live.url, timeout=30)
        except (requests.exceptions.InvalidHeader, UnicodeError, ValueError):
            return  # the client itself refuses to send it
        live.note(path if "{" not in path else "/v1/models", answer)

    send()


def test_some_hundreds_of_odd_requests_break_nothing(live: Live) -> None:
    send_odd_bodies(live, 25)
    send_odd_framings(live, 12)
    send_from_the_document(live, 3)
    assert live.ledger.requests > 300
    assert len(live.ledger.receipts) > 50


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_thousand_odd_requests_break_nothing(live: Live) -> None:
    send_odd_bodies(live, 3600)
    send_odd_framings(live, 700)
    send_from_the_document(live, 150)
    assert live.ledger.requests >= 50_000
