"""What the doctor finds out about each engine, asking it as it asks any other."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from collector.engine.client import EngineClient
from console.doctor.engine_probe import engine_points
from tests.engines.conftest import CONTEXT, Engine, sglang_command, start_sglang
from trainer.tiny_model import write_tiny_model

pytestmark = pytest.mark.timeout(300)


async def test_an_engine_under_test_is_well_but_for_the_flags_it_was_started_without(
    client: EngineClient, engine: Engine
) -> None:
    points = {point.name: point for point in await engine_points(client)}
    assert points["log-probabilities are at the sampling temperature"].status == "ok"
    assert points["as many log-probabilities as tokens"].status == "ok"
    assert points["the prompt is taken as it is"].status == "ok"
    assert points["weights are labelled"].status == "ok"
    assert [name for name, point in points.items() if point.status == "fail"] == []
    if engine.kind == "sglang":
        assert points["engine"].said == "version 0.5.23"
        assert points["--incremental-streaming-output"].status == "ok"
        assert points["--lora-strict-loading"].status in ("ok", "warn"), "the engine says whether it is on"


@pytest.fixture
async def raw(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[EngineClient, None]:
    monkeypatch.setenv("SGLANG_RETURN_ORIGINAL_LOGPROB", "1")
    model = write_tiny_model(tmp_path / "qwen2", family="qwen2", seed=5, context=CONTEXT)
    with start_sglang(sglang_command(request.config, model), tmp_path / "sglang.log") as url:
        client = EngineClient(url, idle_timeout_s=30)
        try:
            yield client
        finally:
            await client.close()


@pytest.mark.sglang
@pytest.mark.long
async def test_an_sglang_that_returns_raw_log_probabilities_is_found_out(raw: EngineClient) -> None:
    points = {point.name: point for point in await engine_points(raw)}
    assert points["log-probabilities are at the sampling temperature"].status == "fail"
    assert points["--incremental-streaming-output"].status == "warn"
