"""Which requests are computed when: the token budget, chunks of prompts, requests that share a prompt."""

import random
from pathlib import Path

import pytest
import torch

from collector.engine.wire import GenerateRequest, SamplingParams
from tests.trainer.engine.loopback import plain_logprobs
from trainer.engine.adapters import AdapterBank
from trainer.engine.causal_model import CausalModel
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.scheduler import Scheduler
from trainer.engine.sequence import Progress, Sequence
from trainer.engine.stopping import StopRule
from trainer.engine_config import EngineConfig


class Recorder:
    """Runs a scheduler without a server and keeps what each request was told."""

    def __init__(self, model: CausalModel, *, kv_tokens: int = 4096, **settings: int) -> None:
        self.scheduler = Scheduler(model, AdapterBank(model.network), EngineConfig(**settings), kv_tokens)
        self.told: dict[str, list[Progress]] = {}

    def submit(self, rid: str, ids: list[int], *, seed: int = 1, new: int = 8) -> Sequence:
        params = SamplingParams(max_new_tokens=new, ignore_eos=True)
        request = GenerateRequest(input_ids=ids, sampling_params=params, rid=rid)
        news = self.told.setdefault(rid, [])
        sequence = Sequence(
            request, adapter=None, rule=StopRule(params, frozenset(), None), seed=seed, sink=news.append
        )
        self.scheduler.submit(sequence)
        return sequence

    def step(self) -> None:
        with torch.inference_mode():
            self.scheduler.step()
        used = self.scheduler.live_tokens + self.scheduler.tree.tokens
        assert used <= self.scheduler.kv_tokens, "the budget was exceeded"
        for tell in self.scheduler.deliveries:
            tell()
        self.scheduler.deliveries.clear()

    def run(self) -> None:
        for _ in range(5000):
            if not self.scheduler.has_work:
                return
            self.step()
        raise AssertionError("requests never finished")

    def reply(self, rid: str) -> tuple[list[int], list[float]]:
        news = self.told[rid]
        return [token for part in news for token in part.token_ids], [x for part in news for x in part.logprobs]


@pytest.fixture(scope="module")
def model(llama: Path) -> CausalModel:
    return CausalModel.load(str(llama), EngineConfig())


def random_ids(length: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(256), k=length)


def test_a_long_prompt_does_not_stop_another_reply(model: CausalModel) -> None:
    recorder = Recorder(model, prefill_chunk=32)
    recorder.submit("first", [1, 2, 3], new=40)
    recorder.step()
    recorder.submit("long", random_ids(320, 0), new=1)
    for step in range(10):
        assert not recorder.told["long"]
        recorder.step()
        # One token in each step beside a chunk of the long prompt: 320 tokens are ten chunks of 32.
        assert len(recorder.reply("first")[0]) == step + 2
    assert len(recorder.reply("long")[0]) == 1


def test_short_prompts_share_a_chunk(model: CausalModel) -> None:
    recorder = Recorder(model, prefill_chunk=32)
    for index in range(4):
        recorder.submit(str(index), random_ids(8, index))
    recorder.step()
    assert [len(recorder.reply(str(index))[0]) for index in range(4)] == [1, 1, 1, 1]


def test_more_requests_than_fit_queue_in_order(model: CausalModel) -> None:
    recorder = Recorder(model, max_running=2)
    for index in range(4):
        recorder.submit(str(index), random_ids(8, index), new=4)
    recorder.step()
    assert (len(recorder.scheduler.running), len(recorder.scheduler.waiting)) == (2, 2)
    recorder.run()
    assert [len(recorder.reply(str(index))[0]) for index in range(4)] == [4, 4, 4, 4]


def test_a_full_budget_retracts_the_latest_request_and_changes_no_reply(model: CausalModel, llama: Path) -> None:
    prompts = [random_ids(60, index) for index in range(4)]
    roomy, tight = Recorder(model), Recorder(model, kv_tokens=5 * 64)
    for recorder in (roomy, tight):
        for index, ids in enumerate(prompts):
            recorder.submit(str(index), ids, seed=index, new=100)
        recorder.run()
    assert roomy.scheduler.totals.retracted == 0
    assert tight.scheduler.totals.retracted > 0
    assert tight.told["0"][-1].retractions == 0
    for index, ids in enumerate(prompts):
        sampled, logprobs = tight.reply(str(index))
        assert sampled == roomy.reply(str(index))[0]
        assert logprobs == pytest.approx(plain_logprobs(llama, ids, sampled), abs=1e-4)


def test_the_cache_makes_room_for_requests(model: CausalModel) -> None:
    recorder = Recorder(model, kv_tokens=4 * 64)
    for index in range(6):
        recorder.submit(str(index), random_ids(100, index), new=20)
        recorder.run()
    assert recorder.scheduler.tree.tokens <= 4 * 64
    assert recorder.scheduler.totals.retracted == 0
    # The latest prompt is still known, the first one is forgotten.
    recorder.submit("latest", random_ids(100, 5), new=1)
    recorder.run()
    recorder.submit("first", random_ids(100, 0), new=1)
    recorder.run()
    assert recorder.told["latest"][-1].cached_tokens == 99
    assert recorder.told["first"][-1].cached_tokens == 0


def test_a_group_of_requests_computes_its_prompt_once(model: CausalModel) -> None:
    recorder = Recorder(model, prefill_chunk=64)
    ids = random_ids(200, 7)
    for index in range(4):
        recorder.submit(str(index), ids, seed=index, new=3)
    recorder.run()
    assert [recorder.told[str(index)][-1].cached_tokens for index in range(4)] == [0, 199, 199, 199]
    assert len({tuple(recorder.reply(str(index))[0]) for index in range(4)}) == 4


def test_a_short_common_beginning_is_not_waited_for(model: CausalModel) -> None:
    recorder = Recorder(model, prefill_chunk=256)
    for index in range(3):
        recorder.submit(str(index), [*random_ids(20, 0), index, *random_ids(20, index)])
    recorder.step()
    assert len(recorder.scheduler.running) == 3


def test_keys_of_weights_that_a_flush_replaced_are_not_shared(model: CausalModel) -> None:
    recorder = Recorder(model)
    recorder.submit("old", random_ids(50, 0), new=4)
    recorder.step()
    recorder.scheduler.generation += 1
    recorder.scheduler.tree.clear()
    recorder.run()
    assert recorder.scheduler.tree.tokens == 0


def test_a_live_name_is_refused_and_a_finished_one_is_not(model: CausalModel) -> None:
    recorder = Recorder(model)
    recorder.submit("a", [1], new=2)
    with pytest.raises(EngineRefusal, match="Duplicate request ID detected: a"):
        recorder.submit("a", [1])
    recorder.run()
    recorder.submit("a", [1])


def test_a_request_for_no_tokens_only_fills_the_cache(model: CausalModel) -> None:
    recorder = Recorder(model)
    recorder.submit("fill", random_ids(40, 1), new=0)
    recorder.run()
    assert recorder.reply("fill") == ([], [])
    assert recorder.scheduler.tree.tokens == 40


def test_logits_that_are_not_finite_end_the_request_alone(llama: Path) -> None:
    model = CausalModel.load(str(llama), EngineConfig())
    recorder = Recorder(model)
    recorder.submit("fine", [1, 2], new=3)
    with torch.no_grad():
        model.network.get_input_embeddings().weight[200] = float("nan")
    recorder.submit("broken", [1, 200], new=3)
    recorder.run()
    broken = recorder.told["broken"][-1].finish
    assert broken is not None
    assert (broken.type, broken.status_code) == ("abort", 500)
    assert "NaN" in (broken.message or "")
    assert recorder.reply("broken") == ([], [])
