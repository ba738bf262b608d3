"""Experts that tokens were routed to: asked for where configured, length-checked, in files of their own, unseen."""

import base64
import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from collector.config import CollectorConfig, ExpertRoutesConfig
from collector.engine.reply import ReplyReader
from collector.engine.wire import Delta, GenerateRequest
from collector.errors import EngineError, StoreError, UserError
from collector.expert_routes import ExpertRetention, ExpertRoutes, MixtureShape
from collector.fakes import ScriptedEngine, deltas
from collector.privacy.config import OptOutConfig
from collector.rendering.renderer import Renderer
from collector.store.expert_files import ExpertFiles
from collector.store.expert_strays import stray_routes
from collector.store.forget import forget
from collector.store.layout import Layout
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from tests.collector.loopback import post, serve

END = "<|im_end|>"
ASK = {"model": "model", "messages": [{"role": "user", "content": "Hi"}], "return_routed_experts": True}
SHAPE = MixtureShape(layers=3, top_k=2, experts=300)


def routes_of(request: GenerateRequest, sampled: int) -> np.ndarray:
    """The experts of every token but the last, up to the highest there is."""
    tokens = len(request.input_ids) + sampled - 1
    count = tokens * SHAPE.layers * SHAPE.top_k
    return ((SHAPE.experts - 1 - np.arange(count, dtype=np.int32)) % SHAPE.experts).reshape(
        tokens, SHAPE.layers, SHAPE.top_k
    )


def engine_of(small: Renderer, change: Any = lambda routes: routes.tobytes()) -> ScriptedEngine:
    """An engine that samples `Hello.` and returns the routes, or what a change makes of them."""
    ids = small.tokenizer.encode(f"Hello.{END}")

    def script(request: GenerateRequest) -> list[Delta]:
        *steps, last = deltas(ids)
        return [*steps, msgspec.structs.replace(last, routed_experts=change(routes_of(request, len(ids))))]

    return ScriptedEngine(script)


def keeper_of(store: Path, writer: str = "collector") -> ExpertRoutes:
    return ExpertRoutes(SHAPE, ExpertFiles(Layout(store), writer))


async def recorded(small: Renderer, store: Path, engine: ScriptedEngine, path: str, body: Any) -> Any:
    """Serves one call from a real store; the answer."""
    with Writer(store, "collector") as writer:
        async with serve(small, engine, journal=writer, keeper=keeper_of(store)) as served:
            status, _, answer = await post(served, path, body, **{"x-session-id": "s"})
            assert status == 200, answer
    return answer


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/generate"])
@pytest.mark.parametrize("stream", [False, True])
async def test_routes_are_stored_beside_the_turn_and_shown_to_nobody(
    small: Renderer, tmp_path: Path, path: str, stream: bool
) -> None:
    engine = engine_of(small)
    body = {**ASK, "max_tokens": 99, "input": "Hi", "stream": stream}
    if path == "/generate":
        body = {"input_ids": small.tokenizer.encode("Hi"), "return_routed_experts": True, "stream": stream}
    answer = await recorded(small, tmp_path, engine, path, body)
    assert "routed" not in json.dumps(answer)
    assert "experts" not in json.dumps(answer)
    assert [request.return_routed_experts for request in engine.requests] == [True]
    with Reader(tmp_path).snapshot() as snapshot:
        (turn,) = snapshot.frame("turns").iter_rows(named=True)
    day = datetime.now(UTC).date().isoformat()
    assert turn["routed_experts"] in (
        f"experts/collector/{day}/{turn['turn_id']}.parquet",
        f"experts/collector/{turn['started_at'].date().isoformat()}/{turn['turn_id']}.parquet",
    )
    assert (turn["trainable"], turn["untrainable_reason"]) == (True, None)
    read = Reader(tmp_path).expert_routes(turn["turn_id"])
    assert read is not None
    assert np.array_equal(read, routes_of(engine.requests[0], len(turn["completion_ids"])))
    assert verify(tmp_path).clean


@pytest.mark.parametrize(
    "change",
    [
        lambda routes: routes[:-1].tobytes(),
        lambda routes: np.concatenate([routes, routes[:1]]).tobytes(),
        lambda routes: routes.tobytes()[:-1],
        lambda routes: b"",
        lambda routes: (routes + SHAPE.experts).tobytes(),
        lambda routes: (routes - SHAPE.experts).tobytes(),
    ],
    ids=["a token less", "a token more", "a byte less", "nothing", "an expert too high", "an expert below 0"],
)
async def test_routes_that_do_not_fit_are_not_stored_and_the_turn_is_not_trained(
    small: Renderer, tmp_path: Path, change: Any
) -> None:
    answer = await recorded(small, tmp_path, engine_of(small, change), "/v1/chat/completions", ASK)
    assert answer["choices"][0]["message"]["content"] == "Hello."
    with Reader(tmp_path).snapshot() as snapshot:
        (turn,) = snapshot.frame("turns").iter_rows(named=True)
    assert (turn["trainable"], turn["untrainable_reason"]) == (False, "expert_routes")
    assert (turn["routed_experts"], turn["complete"]) == (None, True)
    assert not (tmp_path / "experts").exists()


async def test_an_engine_that_returns_none_leaves_a_turn_without(small: Renderer, tmp_path: Path) -> None:
    await recorded(small, tmp_path, engine_of(small, lambda routes: None), "/v1/chat/completions", ASK)
    with Reader(tmp_path).snapshot() as snapshot:
        (turn,) = snapshot.frame("turns").iter_rows(named=True)
    assert (turn["trainable"], turn["routed_experts"]) == (True, None)
    assert Reader(tmp_path).expert_routes(turn["turn_id"]) is None


async def test_routes_are_not_asked_for_by_default_and_dropped_where_they_come(small: Renderer) -> None:
    engine = engine_of(small)
    async with serve(small, engine) as served:
        await post(served, "/v1/chat/completions", ASK)
        (turn,) = served.journal.turns
    assert [request.return_routed_experts for request in engine.requests] == [False]
    assert (turn.routed_experts, turn.trainable) == (None, True)
    assert not CollectorConfig().expert_routes.enabled


async def test_of_a_turn_that_is_kept_bare_no_routes_are_kept(small: Renderer, tmp_path: Path) -> None:
    config = CollectorConfig(opt_out=OptOutConfig(keep="bare"))
    async with serve(small, engine_of(small), config=config, keeper=keeper_of(tmp_path)) as served:
        await post(served, "/v1/chat/completions", ASK, **{"x-roundhouse-train": "no"})
        (turn,) = served.journal.turns
    assert (turn.routed_experts, turn.completion_ids) == (None, [])
    assert not (tmp_path / "experts").exists()


async def test_where_routes_cannot_be_written_the_turn_is_recorded_without_and_it_is_counted(
    small: Renderer, tmp_path: Path
) -> None:
    (tmp_path / "experts").write_text("in the way")
    async with serve(small, engine_of(small), keeper=keeper_of(tmp_path)) as served:
        await post(served, "/v1/chat/completions", ASK)
        (turn,) = served.journal.turns
        _, _, metrics = await post_get(served.url)
    assert (turn.routed_experts, turn.completion_ids[-1]) == (None, small.tokenizer.encode(END)[0])
    assert 'unrecorded_total{table="expert_routes"} 1.0' in metrics


async def post_get(url: str) -> tuple[int, None, str]:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        return answer.status, None, await answer.text()


async def stored_turn(small: Renderer, store: Path) -> tuple[str, Path]:
    """A store with one turn and its routes: the turn's id and the file."""
    await recorded(small, store, engine_of(small), "/v1/chat/completions", ASK)
    with Reader(store).snapshot() as snapshot:
        turn_id, place = snapshot.frame("turns", columns=["turn_id", "routed_experts"]).row(0)
    return turn_id, store / place


async def test_damage_and_loss_of_a_file_are_found(small: Renderer, tmp_path: Path) -> None:
    turn_id, path = await stored_turn(small, tmp_path)
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:], b""):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="run roundhouse verify"):
            Reader(tmp_path).expert_routes(turn_id)
        assert [fault.where for fault in verify(tmp_path).faults] == [str(path.relative_to(tmp_path))]
    path.write_bytes(whole)
    assert verify(tmp_path).clean
    path.unlink()
    assert "no such file" in verify(tmp_path).faults[0].found
    with pytest.raises(StoreError, match="no such file"):
        Reader(tmp_path).expert_routes(turn_id)


async def test_routes_of_another_turn_are_no_routes_of_this_one(small: Renderer, tmp_path: Path) -> None:
    turn_id, path = await stored_turn(small, tmp_path)
    keeper_of(tmp_path).write(turn_id, np.zeros((1, 3, 2), np.int32).tobytes())
    (fault,) = verify(tmp_path).faults
    assert fault.found == "routes of 1 tokens"
    other = turn_id[:-1] + ("0" if turn_id[-1] != "0" else "1")
    keeper_of(tmp_path).write(other, np.zeros((1, 3, 2), np.int32).tobytes())
    path.with_name(f"{other}.parquet").rename(path)
    with pytest.raises(StoreError, match="other routes than were written"):
        Reader(tmp_path).expert_routes(turn_id)


async def test_forgetting_a_session_deletes_its_routes(small: Renderer, tmp_path: Path) -> None:
    _, path = await stored_turn(small, tmp_path)
    assert path.exists()
    assert forget(tmp_path, ["s"]).turns == 1
    assert not path.exists()
    assert verify(tmp_path).clean


async def test_files_that_no_turn_names_go_at_the_start(small: Renderer, tmp_path: Path) -> None:
    turn_id, path = await stored_turn(small, tmp_path)
    stray = turn_id[:-1] + ("0" if turn_id[-1] != "0" else "1")
    keeper_of(tmp_path).write(stray, np.zeros((1, 3, 2), np.int32).tobytes())
    path.with_name("half.parquet.tmp").write_bytes(b"half")
    retention = ExpertRetention(ExpertRoutesConfig(), tmp_path, "collector")
    assert retention.remove_strays() == 2
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert retention.remove_strays() == 0


def put(path: Path, content: bytes = b"half") -> Path:
    """A file that nobody can be about to record any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))
    return path


async def test_files_that_no_turn_names_are_set_aside_by_a_verification(small: Renderer, tmp_path: Path) -> None:
    turn_id, path = await stored_turn(small, tmp_path)
    os.utime(path, (1e9, 1e9))
    stray = turn_id[:-1] + ("0" if turn_id[-1] != "0" else "1")
    strays = [
        put(path.with_name(f"{stray}.parquet")),
        put(path.with_name("half.parquet.tmp")),
        put(tmp_path / "experts" / "collector" / "note.txt"),
        put(tmp_path / "experts" / "gone" / "2026-01-01" / "a.parquet"),
        put(tmp_path / "experts" / "loose.parquet"),
    ]
    young = path.with_name("young.parquet")
    young.write_bytes(b"half")
    places = sorted(str(each.relative_to(tmp_path)) for each in strays)
    found = verify(tmp_path)
    assert not found.clean
    assert sorted(map(str, found.faults)) == [
        f"{place}: a file of no turn, expected expert routes of this store's turns; it is moved to quarantine/"
        for place in places
    ]
    assert not any(each.exists() for each in strays)
    assert path.exists()
    assert young.exists()
    kept = [each for each in (tmp_path / "quarantine").rglob("*") if each.is_file()]
    assert sorted("/".join(each.relative_to(tmp_path / "quarantine").parts[1:]) for each in kept) == places
    assert {each.read_bytes() for each in kept} == {b"half"}
    assert verify(tmp_path).clean
    assert Reader(tmp_path).expert_routes(turn_id) is not None


async def test_a_file_of_no_turn_stays_while_its_writer_runs_and_that_is_said(small: Renderer, tmp_path: Path) -> None:
    _, path = await stored_turn(small, tmp_path)
    stray = put(path.with_name("stray.parquet"))
    with Writer(tmp_path, "collector"):
        (fault,) = verify(tmp_path).faults
        assert (fault.where, fault.action) == (
            str(stray.relative_to(tmp_path)),
            "stop the writer and run verify again to set it aside",
        )
        assert stray.exists()
    assert len(verify(tmp_path).faults) == 1
    assert not stray.exists()


async def test_no_file_is_a_stray_where_turns_are_lost_that_may_have_named_it(small: Renderer, tmp_path: Path) -> None:
    _, path = await stored_turn(small, tmp_path)
    os.utime(path, (1e9, 1e9))
    journal = tmp_path / "journals" / "collector.sqlite"
    journal.write_bytes(b"no journal" * 1000)
    for beside in ("-wal", "-shm"):
        journal.with_name(f"collector.sqlite{beside}").unlink(missing_ok=True)
    with Writer(tmp_path, "other"):
        pass
    assert stray_routes(Layout(tmp_path)) == []
    assert path.exists()


async def test_the_note_of_what_expired_is_no_stray(small: Renderer, tmp_path: Path) -> None:
    await stored_turn(small, tmp_path)
    later = datetime.now(UTC) + timedelta(days=4)
    assert ExpertRetention(ExpertRoutesConfig(max_age_days=2), tmp_path, "collector").expire(later) == 1
    note = tmp_path / "experts" / "collector" / "expired-before"
    os.utime(note, (1e9, 1e9))
    assert verify(tmp_path).clean
    assert note.exists()


async def test_routes_expire_by_their_own_age_and_their_turns_stay(small: Renderer, tmp_path: Path) -> None:
    turn_id, path = await stored_turn(small, tmp_path)
    retention = ExpertRetention(ExpertRoutesConfig(max_age_days=2), tmp_path, "collector")
    now = datetime.now(UTC)
    assert retention.expire(now + timedelta(days=1)) == 0
    assert path.exists()
    assert retention.expire(now + timedelta(days=4)) == 1
    assert not path.exists()
    assert Reader(tmp_path).expert_routes(turn_id) is None
    assert verify(tmp_path).clean
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.frame("turns").height == 1


def test_a_path_that_leads_out_of_the_store_is_not_read(tmp_path: Path) -> None:
    from collector.store.expert_files import read_expert_routes

    with pytest.raises(StoreError, match="expected a file of the store"):
        read_expert_routes(tmp_path / "store", "../outside.parquet")


@pytest.mark.parametrize(
    "settings",
    [
        {"num_hidden_layers": 48, "num_experts_per_tok": 8, "num_experts": 128},
        {"text_config": {"num_hidden_layers": 48, "num_experts_per_tok": 8, "n_routed_experts": 128}},
        {"num_hidden_layers": 48, "num_experts_per_tok": 8, "num_local_experts": 128},
    ],
)
def test_the_shape_of_a_mixture_is_what_its_configuration_says(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert MixtureShape.from_folder(tmp_path) == (48, 8, 128)


def test_routes_of_a_model_that_is_no_mixture_are_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"num_hidden_layers": 2}))
    with pytest.raises(UserError, match="expected the numbers of a mixture"):
        MixtureShape.from_folder(tmp_path)


def event(routes: str) -> bytes:
    meta = {
        "completion_tokens": 1,
        "prompt_tokens": 1,
        "finish_reason": {"type": "stop", "matched": 7},
        "output_token_logprobs": [[-0.5, 7, None]],
        "output_token_logprobs_length": 1,
        "routed_experts": routes,
    }
    return json.dumps({"output_ids": [7], "meta_info": meta}).encode()


def test_the_engine_speaks_base64() -> None:
    given = np.array([[[1, 2]]], np.int32).tobytes()
    delta = ReplyReader("r").read([event(base64.b64encode(given).decode())])
    assert delta is not None
    assert delta.routed_experts == given
    reader = ReplyReader("r")
    assert reader.read([event("%%%")]) is None
    assert isinstance(reader.failure, EngineError)
    assert "expected base64 of int32" in str(reader.failure)


async def test_files_that_are_deleted_while_strays_are_looked_for_are_none(
    small: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = await stored_turn(small, tmp_path)
    gone = put(path.parent.with_name("2026-01-01") / "gone.parquet")
    real = Path.lstat

    def lstat(self: Path) -> os.stat_result:
        # As when the day expires just now.
        if self == gone and gone.parent.exists():
            shutil.rmtree(gone.parent)
        return real(self)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert stray_routes(Layout(tmp_path)) == []
    assert not gone.exists()


async def test_what_was_set_aside_is_told_though_the_next_file_could_not_be(
    small: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = await stored_turn(small, tmp_path)
    first, second = (put(path.with_name(f"{name}.parquet")) for name in "ab")
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self == second:
            raise OSError(5, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    faults = {fault.where: fault.action for fault in stray_routes(Layout(tmp_path))}
    assert faults == {
        str(first.relative_to(tmp_path)): "it is moved to quarantine/",
        str(second.relative_to(tmp_path)): "run verify where the store can be written to set it aside",
    }
