"""What ends a reply, and that the token which ended it is among the ids with its own mu."""

import msgspec
import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import Finish, SamplingParams
from collector.errors import EngineError
from tests.engines.conftest import CONTEXT, Engine
from tests.engines.oracle import Oracle
from tests.engines.sampled import request, sample
from trainer.tiny_model import EOS_ID

pytestmark = pytest.mark.timeout(300)  # the first one starts the engine
PROMPT = [257, *b"user\nStop soon.", 258, 10]
LETTER_A = ord("A")


def always(token: int) -> dict[str, float]:
    """A bias under which a token is sampled nearly surely."""
    return {str(token): 40.0}


async def test_the_end_token_is_in_the_ids_with_its_mu(client: EngineClient, oracle: Oracle) -> None:
    sampling = SamplingParams(max_new_tokens=9, logit_bias=always(EOS_ID))
    reply = await sample(client, request(PROMPT, sampling))
    assert reply.ids == [EOS_ID]
    assert (reply.finish.type, reply.finish.matched) == ("stop", EOS_ID)
    assert reply.logprobs == pytest.approx(oracle.logprobs(PROMPT, [EOS_ID], sampling), abs=1e-4)


async def test_a_further_stop_token_is_in_the_ids(client: EngineClient) -> None:
    sampling = SamplingParams(max_new_tokens=9, logit_bias=always(LETTER_A), stop_token_ids=[LETTER_A])
    reply = await sample(client, request(PROMPT, sampling))
    assert (reply.ids, reply.finish.type, reply.finish.matched) == ([LETTER_A], "stop", LETTER_A)


async def test_the_tokens_of_a_stop_string_are_in_the_ids(client: EngineClient) -> None:
    sampling = SamplingParams(max_new_tokens=9, logit_bias=always(LETTER_A), stop=["zzz", "AAA"])
    reply = await sample(client, request(PROMPT, sampling))
    assert (reply.ids, reply.finish.type, reply.finish.matched) == ([LETTER_A] * 3, "stop", "AAA")
    assert len(reply.logprobs) == 3


async def test_ignore_eos_samples_past_every_stop_token(client: EngineClient) -> None:
    sampling = SamplingParams(max_new_tokens=7, ignore_eos=True, stop_token_ids=[LETTER_A])
    for token in (EOS_ID, LETTER_A):
        biased = msgspec.structs.replace(sampling, logit_bias=always(token))
        reply = await sample(client, request(PROMPT, biased))
        assert (reply.ids, reply.finish.type) == ([token] * 7, "length")


async def test_max_new_tokens_is_exact(client: EngineClient) -> None:
    for limit in (1, 2, 33):
        reply = await sample(client, request(PROMPT, SamplingParams(max_new_tokens=limit, ignore_eos=True)))
        assert len(reply.ids) == limit
        assert reply.finish == Finish(type="length", length=limit)


async def test_prompt_and_limit_may_fill_the_context_and_no_more(engine: Engine, client: EngineClient) -> None:
    sampling = SamplingParams(max_new_tokens=10, ignore_eos=True)
    reply = await sample(client, request([66] * (CONTEXT - 10), sampling))
    # SGLang accepts what fits the context, and then leaves its last two positions empty.
    assert len(reply.ids) == (8 if engine.kind == "sglang" else 10)
    assert (reply.prompt_tokens, reply.finish.type) == (CONTEXT - 10, "length")
    with pytest.raises(EngineError, match=str(CONTEXT)) as refused:
        await sample(client, request([66] * (CONTEXT - 9), sampling))
    assert refused.value.status == 400
