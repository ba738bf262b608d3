"""What is refused by its configuration, by the proof, and what is not refused and equal row by row."""

from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from collector.errors import UserError
from tests.trainer.row_by_row import row
from trainer.packing import pack
from trainer.policy import Policy

SHAPE: dict[str, Any] = {
    "vocab_size": 265,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}


def random_model(family: str, **changes: Any) -> PreTrainedModel:
    torch.set_num_threads(1)
    config = getattr(transformers, f"{family}Config")(**SHAPE | changes)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(0, 1.5 / weight.shape[1] ** 0.5, generator=generator)
    return model


def scaled(kind: str, **changes: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, "factor": 2.0} | changes}


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("Mistral", {"sliding_window": 64}, "sliding_window is 64, expected attention to every token before"),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "layers of type sliding"),
        ("Gemma2", {"head_dim": 8}, "final_logit_softcapping is 30.0, expected plain logits"),
        ("Gemma2", {"head_dim": 8, "final_logit_softcapping": None}, "attn_logit_softcapping is 50.0"),
        ("Llama", scaled("dynamic"), "rope_type is dynamic, expected one that depends on the position alone"),
        (
            "Phi3",
            scaled("longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4)
            | {"original_max_position_embeddings": 128},
            "rope_type is longrope",
        ),
        ("Llama", {"attention_dropout": 0.1}, r"it drops out \(attention_dropout\)"),
        ("Phi3", {"resid_pdrop": 0.1}, r"it drops out \(model.layers.0.resid_attn_dropout\)"),
        ("Phi", {}, "it has a head of its own, expected a linear one without a bias"),
        ("Cohere", {}, "logit_scale is 0.0625, expected plain logits"),
        ("Granite", {"logits_scaling": 8.0}, "logits_scaling is 8.0, expected plain logits"),
        ("GptOss", {"head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}, "layers of type sliding_att"),
    ],
)
def test_what_a_packed_pass_does_not_compute_is_refused_by_name(
    family: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UserError, match=f"{family}ForCausalLM cannot be trained: {reason}"):
        Policy(random_model(family, **changes))


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Mistral", {"sliding_window": None}),
        ("Olmo2", {}),
        ("Phi3", {}),
        ("Llama", scaled("linear")),
        (
            "Llama",
            scaled("llama3", original_max_position_embeddings=64, low_freq_factor=1.0, high_freq_factor=4.0),
        ),
        ("Llama", scaled("yarn", original_max_position_embeddings=64)),
    ],
)
def test_what_is_not_refused_is_proved_and_equal_row_by_row(family: str, changes: dict[str, Any]) -> None:
    model = random_model(family, **changes)
    policy = Policy(model)
    policy.prove()
    trunk = torch.randint(265, (70,), generator=torch.Generator().manual_seed(2)).tolist()
    given = [row([*trunk, *tail], [(60, 90)], None) for tail in ([*range(20)], [*range(50, 70)], [*range(5, 25)])]
    with torch.no_grad():
        ours = policy.score(pack(given), {}).logprobs_N
        model.set_attn_implementation("eager")
        theirs = []
        for each in given:
            logs = model(torch.tensor([each.ids.tolist()])).logits[0, 59:89].log_softmax(-1)
            theirs.append(logs.gather(1, torch.tensor(each.ids[60:].tolist())[:, None])[:, 0])
    assert torch.allclose(ours, torch.cat(theirs), atol=1e-5, rtol=0)


def test_the_proof_finds_a_pass_that_ignores_the_tree() -> None:
    model = random_model("Llama")
    policy = Policy(model)
    policy.prove()
    attention = model.model.layers[1].self_attn
    attention.o_proj.register_forward_hook(lambda _, __, output: output.cumsum(1))
    with pytest.raises(UserError, match="differ from transformers' own forward pass by"):
        policy.prove()


def test_the_proof_finds_logits_that_are_changed_after_the_head() -> None:
    model = random_model("Llama")
    model.lm_head.register_forward_hook(lambda _, __, output: output * 1.01)
    with pytest.raises(UserError, match="differ from transformers' own forward pass by"):
        Policy(model).prove()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
def test_the_proof_passes_in_half_precision(family: str, dtype: torch.dtype) -> None:
    Policy(random_model(family, head_dim=8).to(dtype)).prove()
