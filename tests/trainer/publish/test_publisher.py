"""Loading, proving, sampling and unloading on real embedded engines, and workers that refuse, lack or hang."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from collector.engine.wire import SamplingParams
from collector.errors import UserError
from tests.trainer.engine.loopback import Served, plain_logprobs, poll, serving
from tests.trainer.publish.probe_setting import CONFIG, Setting
from trainer.engine_config import EngineConfig
from trainer.publish.publisher import Publisher, PublishError


@pytest.fixture
def silent() -> Iterator[str]:
    """A worker that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """The address of no worker."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_first_version_is_loaded_and_proved(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], CONFIG)
    loaded = publisher.load("ada@1", setting.versions[0])
    assert loaded.workers == (served.url,)
    proof = publisher.prove(setting.probe(1, None), "ada@1", known=None)
    assert proof.verdict == "proved", proof.text
    (worker,) = proof.workers
    assert worker.served == "new"
    assert (worker.cached_tokens or 0) > 0
    assert worker.control_nats is not None
    assert worker.control_nats < 1e-4
    assert all(each.residuals["new"] < 1e-4 for each in worker.judgements)


def test_a_second_version_is_told_from_both(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    publisher.load("ada@2", setting.versions[1])
    proof = publisher.prove(setting.probe(2, 1), "ada@2", known="ada@1")
    assert proof.verdict == "proved", proof.text
    detail = proof.events()[0].detail
    assert detail is not None
    assert detail["log_likelihood_ratio_previous"] > 40  # type: ignore[operator]
    assert detail["log_likelihood_ratio_base"] > 40  # type: ignore[operator]
    assert detail["tokens"] == CONFIG.probe_tokens + CONFIG.passages * CONFIG.decode_tokens


def test_a_live_probe_is_an_event_of_another_kind(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    (event,) = publisher.prove(setting.probe(1, None), "ada@1", known=None, kind="probe").events()
    assert (event.kind, event.severity, event.adapter, event.version) == ("probe", "info", "ada", 1)


def test_loading_again_after_a_crash_counts_and_another_folder_is_refused(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    assert publisher.load("ada@1", setting.versions[0]).already == (served.url,)
    with pytest.raises(PublishError, match=r"ada@1 is loaded from .*ada-1, expected .*ada-2"):
        publisher.load("ada@1", setting.versions[1])


def test_a_full_worker_says_what_could_be_unloaded(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], CONFIG)
    for version in (1, 2, 3):
        publisher.load(f"ada@{version}", setting.versions[version - 1])
    with pytest.raises(
        PublishError, match=r"all 3 adapter slots are taken, .* expected one for bob@1; ada@1, ada@2 could"
    ):
        publisher.load("bob@1", setting.versions[0], in_use=["ada@3"])
    with pytest.raises(PublishError, match="all are in use, start the engine with more"):
        publisher.load("bob@1", setting.versions[0], in_use=["ada@1", "ada@2", "ada@3"])
    assert publisher.unload("ada@1").workers == (served.url,)
    publisher.load("bob@1", setting.versions[0])
    assert set(publisher.loaded()[served.url]) == {"ada@2", "ada@3", "bob@1"}


def test_enough_workers_are_enough_and_the_others_are_named(
    setting: Setting, served: Served, silent: str, nobody: str
) -> None:
    config = msgspec.structs.replace(CONFIG, straggler_s=0.2)
    with serving(EngineConfig(model=str(setting.model))) as second:
        workers = [served.url, silent, nobody, second.url]
        with pytest.raises(PublishError, match="2 of 4 workers did, expected 4"):
            Publisher(workers, msgspec.structs.replace(config, load_limit_s=5)).load("ada@1", setting.versions[0])
        publisher = Publisher(workers, msgspec.structs.replace(config, enough=2))
        loaded = publisher.load("ada@1", setting.versions[0])
        assert loaded.workers == (served.url, second.url)
        assert "left behind" in loaded.failed[silent]
        assert "cannot be reached" in loaded.failed[nobody]
        proof = publisher.prove(setting.probe(1, None), "ada@1", known=None, workers=loaded.workers)
        assert [each.verdict for each in proof.workers] == ["proved", "proved"]


@pytest.mark.parametrize(("enough", "may_route"), [(1, True), (2, False)])
def test_a_worker_that_does_not_answer_is_undecided_and_the_others_are_routed_to_where_they_are_enough(
    setting: Setting, served: Served, silent: str, enough: int, may_route: bool
) -> None:
    config = msgspec.structs.replace(CONFIG, enough=enough, prove_limit_s=3, straggler_s=0)
    Publisher([served.url], CONFIG).load("ada@1", setting.versions[0])
    proof = Publisher([served.url, silent], config).prove(setting.probe(1, None), "ada@1", known=None)
    assert [each.verdict for each in proof.workers] == ["proved", "undecided"]
    assert "gave no answer in 3 s" in proof.workers[1].reason
    assert proof.may_route == may_route
    assert [each.process is None for each in proof.workers] == [False, True]


def test_a_hung_unload_is_left_behind_and_replies_under_way_finish(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], msgspec.structs.replace(CONFIG, unload_limit_s=0.2))
    publisher.load("ada@1", setting.versions[0])
    prompt = [65, 66, 67]
    replies: list[dict[str, object]] = []
    sampling = {"max_new_tokens": 500, "ignore_eos": True}

    def speak() -> None:
        replies.append(asyncio.run(served.generate(prompt, body={"lora_path": "ada@1"}, **sampling)))

    speaking = threading.Thread(target=speak)
    speaking.start()
    asyncio.run(poll(lambda: served.engine.load.generated_tokens_total >= 10))
    left = publisher.unload("ada@1")
    assert left.workers == ()
    assert "left behind" in left.left_behind[served.url]
    speaking.join(60)
    ids = replies[0]["output_ids"]
    assert isinstance(ids, list)
    assert len(ids) == 500
    triples = replies[0]["meta_info"]["output_token_logprobs"]  # type: ignore[index]
    expected = plain_logprobs(setting.model, prompt, ids[:50], adapter=setting.versions[0])
    assert [triple[0] for triple in triples[:50]] == pytest.approx(expected, abs=1e-4)


def test_unloading_what_is_not_loaded_is_done_already(served: Served) -> None:
    assert Publisher([served.url], CONFIG).unload("ada@9").workers == (served.url,)


def test_samples_come_in_the_order_of_the_prompts_from_all_workers(setting: Setting) -> None:
    prompts = [[65 + index, 66] for index in range(5)]
    greedy = SamplingParams(max_new_tokens=4, temperature=0.0, ignore_eos=True)
    with ExitStack() as stack:
        engines = [stack.enter_context(serving(EngineConfig(model=str(setting.model)))) for _ in range(2)]
        publisher = Publisher([engine.url for engine in engines], CONFIG)
        publisher.load("ada@1", setting.versions[0])
        replies = publisher.sample("ada@1", prompts, greedy)
        assert [engine.engine.load.requests_total for engine in engines] == [3, 2]
    for prompt, reply in zip(prompts, replies, strict=True):
        expected = plain_logprobs(setting.model, prompt, list(reply.ids), adapter=setting.versions[0])
        assert list(reply.logprobs) == pytest.approx(expected, abs=1e-4)


def test_settings_that_cannot_be_met_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no worker is given"):
        Publisher([], CONFIG)
    with pytest.raises(UserError, match="enough is 2, expected at most the 1 workers"):
        Publisher(["http://127.0.0.1:1"], msgspec.structs.replace(CONFIG, enough=2))
    with pytest.raises(UserError, match="passages × decode_tokens is 9, expected at least 12"):
        Publisher(["http://127.0.0.1:1"], msgspec.structs.replace(CONFIG, decode_tokens=3))
