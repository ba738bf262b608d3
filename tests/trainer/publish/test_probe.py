"""Probe tokens are those on which the versions differ most, each pair of versions having its say."""

import numpy as np
import pytest
import torch

from collector.errors import UserError
from tests.trainer.engine.loopback import plain_logprobs
from tests.trainer.publish.probe_setting import Setting, contexts
from trainer.publish.policy_probe import PolicyPredictor, make_probe, read_published
from trainer.publish.probe import Given, Passage, Predictions, Predictor, Probe, choose, windows


def test_windows_are_distinct_and_begin_with_the_first_of_each_context() -> None:
    one, two = list(range(20)), [*range(8), *range(50, 62)]
    assert windows([one, two], length=8) == [tuple(range(8)), tuple(range(8, 16)), tuple(range(50, 58))]
    assert windows([one, two], length=8, count=1) == [tuple(range(8))]


def test_contexts_without_a_stretch_are_refused() -> None:
    with pytest.raises(UserError, match="none of 2 stored contexts has 8 tokens"):
        windows([[1, 2, 3], []], length=32)


def predictions(new: list[float], previous: list[float], base: list[float]) -> Predictions:
    return {"new": np.array(new), "previous": np.array(previous), "base": np.array(base)}


def test_every_pair_of_versions_chooses_in_turn() -> None:
    """New and previous differ at the first token by 0.1 at most, both from the base at the others by much more."""
    ids = tuple(range(6))
    given = predictions([-1.1, -2, -5, -3, -2], [-1.0, -2, -5, -3, -2], [-1.0, -2, -1, -2, -2])
    (passage,) = choose([ids], [given], tokens=2, passages=1)
    assert passage.chosen == (0, 2)
    (passage,) = choose([ids], [given], tokens=5, passages=1)
    assert passage.chosen == (0, 2, 3)  # the others differ under no pair


def test_tokens_that_some_version_finds_impossible_are_left_out() -> None:
    given = predictions([-1, -1, -1], [-1, -3, -1], [-30, -2, -1])
    (passage,) = choose([(1, 2, 3, 4)], [given], tokens=3, passages=1)
    assert passage.chosen == (1,)


def test_the_choice_does_not_depend_on_which_version_is_new() -> None:
    rng = np.random.default_rng(3)
    stretches = [tuple(range(10 * index, 10 * index + 10)) for index in range(4)]
    new, previous, base = (rng.uniform(-8, -1, (4, 9)) for _ in range(3))
    one = [{"new": a, "previous": b, "base": c} for a, b, c in zip(new, previous, base, strict=True)]
    other = [{"new": a, "previous": b, "base": c} for a, b, c in zip(previous, new, base, strict=True)]
    chosen = [choose(stretches, each, tokens=9, passages=3) for each in (one, other)]  # type: ignore[arg-type]
    assert [set(passage.ids) for passage in chosen[0]] == [set(passage.ids) for passage in chosen[1]]
    tops = [{(passage.ids, place) for passage in each for place in passage.chosen} for each in chosen]
    assert len(tops[0] & tops[1]) >= 8  # the last round may go to another pair


def test_sampling_goes_on_before_the_token_that_differs_most_in_the_second_half() -> None:
    given = predictions([-9, -1, -1, -1, -4, -1, -1, -2, -1], [-1] * 9, [-1] * 9)
    (passage,) = choose([tuple(range(10))], [given], tokens=2, passages=1)
    assert passage.cut == 5  # the prediction with index 4 is of token 5
    assert passage.ids[: passage.cut] == (0, 1, 2, 3, 4)


def test_predictions_are_those_of_plain_forward_passes(setting: Setting) -> None:
    ids = contexts()[0][:20]
    predictor = PolicyPredictor(setting.policy, setting.adapter(2), setting.adapter(1))
    found, again = predictor.predict([Given(tuple(ids), 1, 1.0), Given(tuple(ids), 15, 0.8)])
    for name, folder in (("new", setting.versions[1]), ("previous", setting.versions[0]), ("base", None)):
        plain = plain_logprobs(setting.model, list(ids[:1]), list(ids[1:]), adapter=folder)
        assert found[name] == pytest.approx(plain, abs=1e-5)  # type: ignore[index]
        cold = plain_logprobs(setting.model, list(ids[:15]), list(ids[15:]), temperature=0.8, adapter=folder)
        assert again[name] == pytest.approx(cold, abs=1e-5)  # type: ignore[index]


def test_many_sequences_are_predicted_in_several_passes(setting: Setting) -> None:
    given = [Given(tuple(context), 1, 1.0) for context in contexts(count=12, length=80)]
    predictor: Predictor = PolicyPredictor(setting.policy, setting.adapter(1), None)
    together = predictor.predict(given)
    for each, alone in zip(together, (predictor.predict([one])[0] for one in given), strict=True):
        assert set(each) == {"new", "base"}
        assert each["new"] == pytest.approx(alone["new"], abs=1e-5)


def test_a_probe_has_the_tokens_asked_for(setting: Setting) -> None:
    probe = make_probe(PolicyPredictor(setting.policy, setting.adapter(1), None), contexts(), tokens=18)
    assert isinstance(probe, Probe)
    assert probe.tokens == 18
    assert not probe.has_previous
    assert [type(passage) for passage in probe.passages] == [Passage] * 3
    differences = [np.abs(p.predicted["new"] - p.predicted["base"]) for p in probe.passages]
    for passage, difference in zip(probe.passages, differences, strict=True):
        rest = np.delete(difference, passage.chosen)
        assert difference[list(passage.chosen)].min() >= rest.max() * 0.2


def test_a_published_folder_is_read_as_an_engine_reads_it(setting: Setting) -> None:
    adapter = read_published(setting.policy, setting.versions[0], "ada")
    assert (adapter.name, adapter.rank, adapter.scaling) == ("ada", 4, 2.0)
    assert not any(parameter.requires_grad for parameter in adapter.parameters())
    assert all(parameter.dtype == torch.float32 for parameter in adapter.parameters())
    with pytest.raises(UserError, match="not found, expected the folder of a peft LoRA adapter"):
        read_published(setting.policy, setting.model, "ada")
