"""Whatever an engine serves in place of the new version is refuted or undecided, and the check says the same."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec
import polars as pl
import pytest

from checks.finding import Finding
from checks.suite import run, select_checks
from tests.trainer.engine.loopback import Served
from tests.trainer.publish.probe_setting import CONFIG, Setting
from tests.trainer.publish.tampering import tampering
from trainer.publish.proof import Proof
from trainer.publish.publisher import Publisher


def checked(proof: Proof) -> Finding:
    """What `roundhouse check` says of the events of a proof."""
    rows = [
        {"kind": event.kind, "at": event.at, "adapter": event.adapter, "version": event.version}
        | {"detail": msgspec.json.encode(event.detail).decode()}
        for event in proof.events()
    ]
    frames = {"turns": pl.DataFrame(schema={"session_id": pl.String}), "events": pl.DataFrame(rows)}
    return run(frames, checks=select_checks(["served-adapter"])).findings[0]


def proof_of(setting: Setting, served: Served, **changes: Callable[[dict[str, Any]], None]) -> Proof:
    """The proof of version 2 after version 1, by way of a proxy that tampers."""
    with ExitStack() as stack:
        url = stack.enter_context(tampering(served.url, **changes))
        publisher = Publisher([url], CONFIG)
        publisher.load("ada@1", setting.versions[0])
        publisher.load("ada@2", setting.versions[1])
        return publisher.prove(setting.probe(2, 1), "ada@2", known="ada@1")


def renamed(name: str | None) -> Callable[[dict[str, Any]], None]:
    """Serves something else under the new name."""

    def change(order: dict[str, Any]) -> None:
        if order["lora_path"] == "ada@2":
            order["lora_path"] = name

    return change


def test_the_new_version_is_proved_and_the_check_is_content(setting: Setting, served: Served) -> None:
    proof = proof_of(setting, served)
    assert proof.may_route, proof.text
    assert checked(proof).status == "ok"


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [("ada@1", "previous", "previous_version_served"), (None, "base", "base_model_served")],
)
def test_another_version_under_the_new_name_is_named(
    setting: Setting, served: Served, name: str | None, version: str, kind: str
) -> None:
    proof = proof_of(setting, served, asked=renamed(name))
    assert (proof.verdict, proof.workers[0].served) == ("refuted", version)
    assert [each.verdict for each in proof.workers[0].judgements] == ["refuted", "refuted"]
    found = checked(proof)
    assert found.status == "fail"
    assert [each.kind for each in found.evidence] == [kind]
    ratio = found.evidence[0].detail[f"log_likelihood_ratio_{version}"]
    assert isinstance(ratio, float)
    assert ratio < -40


def test_a_prefix_of_the_previous_version_is_seen_by_sampling_only(setting: Setting, served: Served) -> None:
    with tampering(served.url) as url:
        publisher = Publisher([url], CONFIG)
        publisher.load("ada@1", setting.versions[0])
        publisher.load("ada@2", setting.versions[1])
        bank = served.engine.bank
        # The fault: the cache knows no versions, and what one computed is another's prefix.
        bank.loaded["ada@2"] = bank.loaded["ada@2"]._replace(namespace=bank.loaded["ada@1"].namespace)
        proof = publisher.prove(setting.probe(2, 1), "ada@2", known="ada@1")
    scored, decoded = proof.workers[0].judgements
    assert scored.verdict == "proved"
    assert decoded.verdict == "refuted"
    assert proof.verdict == "refuted"
    assert checked(proof).status == "fail"


def test_an_adapter_applied_in_part_is_refuted(setting: Setting, served: Served) -> None:
    with tampering(served.url) as url:
        publisher = Publisher([url], CONFIG)
        publisher.load("ada@1", setting.versions[0])
        publisher.load("ada@2", setting.versions[1])
        bank = served.engine.bank
        pairs = bank.loaded["ada@2"].pairs
        weaker = {name: pair._replace(scaling=pair.scaling / 2) for name, pair in pairs.items()}
        bank.loaded["ada@2"] = bank.loaded["ada@2"]._replace(pairs=weaker)
        proof = publisher.prove(setting.probe(2, 1), "ada@2", known="ada@1")
    assert (proof.verdict, proof.workers[0].served) == ("refuted", "unknown")


def at_another_temperature(order: dict[str, Any]) -> None:
    order["sampling_params"]["temperature"] = 1.0


def zeros(reply: dict[str, Any]) -> None:
    for key in ("input_token_logprobs", "output_token_logprobs"):
        reply["meta_info"][key] = [[number and 0.0, *rest] for number, *rest in reply["meta_info"][key]]


def scaled(reply: dict[str, Any]) -> None:
    for triple in reply["meta_info"]["input_token_logprobs"][1:]:
        triple[0] /= 0.9


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({"asked": at_another_temperature}, ["proved", "refuted"]),
        ({"said": scaled}, ["refuted", "proved"]),
        ({"said": zeros}, ["refuted", "refuted"]),
    ],
    ids=["unscaled log-probabilities", "scaled scores", "zeros for log-probabilities"],
)
def test_wrong_log_probabilities_prove_nothing(
    setting: Setting, served: Served, changes: dict[str, Any], verdicts: list[str]
) -> None:
    proof = proof_of(setting, served, **changes)
    assert [each.verdict for each in proof.workers[0].judgements] == verdicts
    assert proof.verdict == "refuted"
    assert proof.workers[0].served == "unknown"
    assert checked(proof).status == "fail"


def test_the_same_weights_again_are_undecided(setting: Setting, served: Served) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    publisher.load("ada@2", setting.versions[0])
    probe = setting.probe(1, None)
    same = setting.adapter(1)
    twin = type(probe)(
        tuple(
            passage._replace(predicted={**passage.predicted, "previous": passage.predicted["new"]})
            for passage in probe.passages
        ),
        type(probe.predictor)(setting.policy, same, same),  # type: ignore[call-arg]
    )
    proof = publisher.prove(twin, "ada@2", known="ada@1")
    assert proof.verdict == "undecided"
    assert not proof.may_route
    assert checked(proof).status == "warn"


def test_sampling_without_a_cached_prefix_proves_nothing(setting: Setting, served: Served) -> None:
    def uncached(reply: dict[str, Any]) -> None:
        reply["meta_info"]["cached_tokens"] = 0

    proof = proof_of(setting, served, said=uncached)
    assert [each.verdict for each in proof.workers[0].judgements] == ["proved", "proved"]
    assert proof.verdict == "undecided"
    assert "no cached prefix was used" in proof.workers[0].reason
