"""`roundhouse feedback`: what it posts, what it prints, and what it says when it cannot."""

import asyncio
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from collector.config import CollectorConfig
from collector.fakes import ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.records import Feedback, FeedbackKind
from console.cli import main
from tests.collector.loopback import post, serve
from tests.collector.published import small_renderer


async def run(*words: str) -> int:
    return await asyncio.to_thread(main, ["feedback", *words])


async def test_a_judgement_reaches_the_record_and_a_receipt_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = small_renderer()
    ids = small.tokenizer.encode("Hello.<|im_end|>")
    config = CollectorConfig(keys={sha256_of("secret"): "acme"})
    key = tmp_path / "key"
    key.write_text("secret\n")
    async with serve(small, ScriptedEngine(lambda _: deltas(ids)), config=config) as served:
        request = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
        _, _, reply = await post(served, "/v1/chat/completions", request, authorization="Bearer secret")
        words = ["--url", served.url, "--response", reply["id"], "--kind", "score", "--value", "0.5", "--id", "f"]
        assert await run(*words, "--key-file", str(key), "--json") == 0
        assert json.loads(capsys.readouterr().out)["duplicate"] is False
        assert await run(*words, "--key-file", str(key)) == 0
        assert "counts once" in capsys.readouterr().out
        for url in (f"{served.url}/v1", f"{served.url}/v1/"):
            assert await run("--url", url, *words[2:], "--key-file", str(key)) == 0
            assert "counts once" in capsys.readouterr().out
        stored = [record for record in served.journal.records if isinstance(record, Feedback)]
        assert [(judgement.value, judgement.source) for judgement in stored] == [(0.5, "command line")]
        assert await run(*words) == 2
        assert "answered 401" in capsys.readouterr().err


async def test_a_collector_that_is_not_there_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("--url", "http://127.0.0.1:9", "--session", "s", "--kind", "thumb", "--value", "1") == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "is the collector running there?" in error


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
async def test_a_value_that_is_no_number_is_refused_before_it_is_sent(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--url", "http://127.0.0.1:9", "--session", "s", "--kind", "thumb", f"--value={value}"]
    assert await run(*words) == 2
    said = f"--value is {value}, expected a finite number; leave it out when there is none"
    assert capsys.readouterr().err == f"roundhouse feedback: {said}\n"


async def test_the_help_says_the_scale_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        await run("--help")
    said = " ".join(capsys.readouterr().out.split())
    for kind in get_args(FeedbackKind):
        assert re.search(rf"usual --value: .*\b{kind}\b.* Any finite number", said), kind
