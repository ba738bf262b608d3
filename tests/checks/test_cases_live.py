"""Cases 016 and 017 as live traffic: OpenAI's own client talks to a collector, `roundhouse check` reads its store."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import openai
import polars as pl
import pytest

from collector.engine.wire import GenerateRequest
from collector.fakes import ScriptedEngine, Step, deltas
from collector.past import StoredPast
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from console.cli import main
from tests.collector.conftest import qwen_backend, qwen_tokenizer  # noqa: F401 - fixtures
from tests.collector.loopback import Served, post, serve
from tests.collector.published import template_source

TEMPLATE = "Qwen-Qwen3-4B-Instruct-2507.jinja"


@pytest.fixture(scope="module")
def model(qwen_tokenizer: ChatTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811 - a fixture
    """A tokenizer folder as `--tokenizer` takes it."""
    folder = tmp_path_factory.mktemp("qwen3")
    qwen_tokenizer.backend.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(template_source(TEMPLATE), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}', encoding="utf-8")
    return folder


def case_named(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def sampling(ids: list[int], request: GenerateRequest) -> list[Step]:
    return [*deltas(ids, size=3, prompt_tokens=len(request.input_ids))]


async def ask(served: Served, told: dict[str, Any], number: int) -> None:
    """Every other turn is streamed."""
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="any") as client:
        asked: dict[str, Any] = {"model": "model", "messages": told["messages"]}
        headers = {"x-session-id": "s"}
        if number % 2:
            await client.chat.completions.create(**asked, extra_headers=headers)
            return
        stream = await client.chat.completions.create(**asked, stream=True, extra_headers=headers)
        finished = [chunk.choices[0].finish_reason async for chunk in stream]
        assert finished[-1] == "stop"


async def live(case: dict[str, Any], model: Path, store: Path, *, declares: str) -> pl.DataFrame:
    """The case's dialogue through a collector; the turns that its store then holds."""
    assert case["template"]["name"] == TEMPLATE
    told = case["input"]["turns"]
    tokenizer = ChatTokenizer.from_folder(model)
    renderer = Renderer(tokenizer, ChatTemplate(template_source(TEMPLATE), names=tokenizer.names))
    engine = ScriptedEngine(*(partial(sampling, turn["completion_ids"]) for turn in told))
    with Writer(store, "collector") as writer:
        async with serve(renderer, engine, journal=writer, past=StoredPast(store)) as served:
            for number, turn in enumerate(told, 1):
                event = {"kind": turn.get("event"), "session_id": "s", "turn": number}
                if "event" in turn and declares == "before":
                    assert (await post(served, "/v1/events", event))[0] == 200
                await ask(served, turn, number)
                if "event" in turn and declares == "after":
                    assert (await post(served, "/v1/events", event))[0] == 200
    assert verify(store).clean
    with Reader(store).snapshot() as snapshot:
        turns = snapshot.frame("turns").sort("turn")
    assert turns["prompt_ids"].to_list() == [turn["prompt_ids"] for turn in told]
    assert turns["completion_ids"].to_list() == [turn["completion_ids"] for turn in told]
    return turns


def found(store: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The finding of `roundhouse check --select prefix-break`."""
    words = ["check", str(store), "--format", "json", "--select", "prefix-break", "--tokenizer", str(model)]
    code = main(words)
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert code == (1 if finding["status"] == "fail" else 0)
    return finding


@pytest.mark.parametrize("declares", ["before", "after"])
async def test_016_a_declared_compaction_is_information_at_the_cases_place(
    shared_folder: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], declares: str
) -> None:
    case = case_named(shared_folder, "016-compaction-declared")
    turns = await live(case, model, tmp_path / "store", declares=declares)
    if declares == "before":
        assert turns["link"].to_list() == ["root", "extends", "compaction", "extends"]
    finding = found(tmp_path / "store", model, capsys)
    expected = case["expected"]["prefix_breaks"]
    names = ("turn", "previous_turn", "token_index", "kind")
    assert [{name: fault[name] for name in names} for fault in finding["evidence"]] == [
        {name: told[name] for name in names} for told in expected
    ]
    assert (finding["status"], finding["value"]) == (case["expected"]["severity"]["with_event"], 0)


async def test_016_undeclared_is_a_new_root_and_no_finding(
    shared_folder: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_named(shared_folder, "016-compaction-declared")
    turns = await live(case, model, tmp_path / "store", declares="never")
    assert turns["link"].to_list() == ["root", "extends", "root", "extends"]
    finding = found(tmp_path / "store", model, capsys)
    assert case["expected"]["severity"]["without_event"] == "read as a new root: no finding"
    assert (finding["status"], finding["evidence"]) == ("ok", [])


async def test_017_interleaved_agents_are_two_lines_and_no_finding(
    shared_folder: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_named(shared_folder, "017-subagent-interleaved")
    turns = await live(case, model, tmp_path / "store", declares="never")
    number = dict(turns.select("turn_id", "turn").rows())
    parents = [parent and number[parent] for parent in turns["parent_turn_id"].to_list()]
    assert parents == case["expected"]["parent_of_turn"]
    finding = found(tmp_path / "store", model, capsys)
    assert (finding["status"], finding["evidence"]) == ("ok", case["expected"]["prefix_breaks"])
