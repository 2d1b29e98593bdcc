"""Every format of a head gives the same network, and every hazard of a format is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_heads import FEATURES, D, Tensors, TinyHead, save_head
from torch import Tensor

from serving.errors import ModelLoadError
from serving.models.architecture import Architecture
from serving.models.heads.config import HeadConfig
from serving.models.heads.embedding import head_embedding
from serving.models.heads.formats import read_config
from serving.models.heads.shapes import tensor_shapes
from serving.models.heads.vocabulary import sayable, target_ids
from serving.models.heads.weights import HeadWeights

TARGET = Architecture.from_hf(
    {
        "model_type": "llama",
        "hidden_size": D,
        "intermediate_size": 96,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "vocab_size": 100,
        "max_position_embeddings": 4096,
    }
)
DEFAULT_LAYERS = (2, 4, 5)
CPU = torch.device("cpu")


def read(folder: Path, target: Architecture = TARGET) -> HeadConfig:
    return read_config(folder, target)


def opened(folder: Path, target: Architecture = TARGET) -> HeadWeights:
    return HeadWeights.open(folder, read(folder, target), torch.float32, CPU)


def refused(folder: Path, message: str, target: Architecture = TARGET) -> None:
    with pytest.raises(ModelLoadError, match=message) as caught:
        target_ids(opened(folder, target), read(folder, target))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@pytest.mark.parametrize("layout", ["published", "specforge", "speculators"])
def test_eagle3_in_every_layout(tmp_path: Path, layout: str, pickled: bool) -> None:
    head = TinyHead()
    folder = save_head(head, tmp_path, layout, layers=DEFAULT_LAYERS, pickled=pickled)
    found = read(folder)
    assert (found.kind, found.feature_layers) == ("eagle3", DEFAULT_LAYERS)
    assert (found.vocab_size, found.draft_vocab_size) == (100, 40)
    assert (found.norm_output, found.norm_before_residual) == (False, False)
    assert found.layer.rope.theta == 10_000.0
    assert_tensors(opened(folder), head.tensors)
    assert torch.equal(target_ids(opened(folder), found), head.target_ids)


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@pytest.mark.parametrize("biases", [False, True], ids=["plain", "biases"])
def test_eagle_as_published(tmp_path: Path, biases: bool, pickled: bool) -> None:
    head = TinyHead("eagle", biases=biases, theta=5e5)
    folder = save_head(head, tmp_path, "published", pickled=pickled)
    found = read(folder)
    assert (found.kind, found.feature_layers, found.draft_vocab_size) == ("eagle", (8,), 100)
    assert found.layer.rope.theta == 5e5
    assert found.fc_bias
    assert_tensors(opened(folder), head.tensors)


def test_eagle_without_bias(tmp_path: Path) -> None:
    folder = save_head(
        TinyHead("eagle"), tmp_path, "published", config={"bias": False}, tensors={"fc.bias": None}
    )
    assert "fc.bias" not in tensor_shapes(read(folder))
    opened(folder)


def assert_tensors(weights: HeadWeights, expected: Tensors) -> None:
    wanted = set(expected) - {"d2t", "t2d"}
    assert set(weights.shapes) == wanted
    for name in wanted:
        assert torch.equal(weights.get(name), expected[name]), name


def test_speculators_choices(tmp_path: Path) -> None:
    head = TinyHead(norm_output=True, norm_before_residual=True, joint_norm=True, qk_norm=True, biases=True)
    found = read(save_head(head, tmp_path, "speculators"))
    assert found.norm_output
    assert found.norm_before_residual
    assert found.feature_norm == "joint"
    assert found.layer.qk_norm
    assert found.layer.qkv_bias
    assert_tensors(opened(tmp_path), head.tensors)


def test_norm_of_each_feature(tmp_path: Path) -> None:
    head = TinyHead(fc_norm=True)
    for layout in ("specforge", "speculators"):
        folder = save_head(head, tmp_path / layout, layout)
        assert read(folder).feature_norm == "each"
        assert_tensors(opened(folder), head.tensors)


def test_names_may_have_a_prefix(tmp_path: Path) -> None:
    head = TinyHead()
    prefixed: dict[str, Tensor | None] = {"fc.weight": None, "model.fc.weight": head.tensors["fc.weight"]}
    assert_tensors(opened(save_head(head, tmp_path, "specforge", tensors=prefixed)), head.tensors)


@pytest.mark.parametrize("layout", ["published", "specforge", "speculators"])
@pytest.mark.parametrize("written", [[1, 3, 4], [2, 4, 5], None], ids=["outputs", "inputs", "unnamed"])
def test_s15_layers_by_output_or_by_input(tmp_path: Path, layout: str, written: list[int] | None) -> None:
    assert read(save_head(TinyHead(), tmp_path, layout, layers=written)).feature_layers == DEFAULT_LAYERS


def test_the_last_layers_output_may_be_a_feature(tmp_path: Path) -> None:
    assert read(save_head(TinyHead(), tmp_path, "specforge", layers=[2, 4, 8])).feature_layers == (2, 4, 8)


@pytest.mark.parametrize(
    "written", [[2, 4, 9], [-1, 2, 3], [1, 4, 8], [], "2,4,5", [2, 4.0, 5], [True, 4, 5]]
)
def test_layers_that_are_none(tmp_path: Path, written: Any) -> None:
    ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": written}}
    refused(save_head(TinyHead(), tmp_path, "specforge", config=ids), "layer")


def test_norm_output_of_specforge_could_mean_two_things(tmp_path: Path) -> None:
    """Absent or false, what is fed back is not normed, as in the paper."""
    folder = save_head(TinyHead(), tmp_path, "specforge", config={"norm_output": False})
    assert not read(folder).norm_output
    refused(save_head(TinyHead(), tmp_path, "specforge", config={"norm_output": True}), "norm_output")


@pytest.mark.parametrize(
    ("fields", "theta"),
    [
        ({}, 10_000.0),
        ({"rope_theta": 5e5}, 5e5),
        ({"rope_theta": 5e5, "rope_scaling": None}, 5e5),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6),
    ],
)
@pytest.mark.parametrize("kind", ["eagle3", "eagle"])
def test_rope_theta_wherever_it_is(tmp_path: Path, kind: str, fields: dict[str, Any], theta: float) -> None:
    assert read(save_head(TinyHead(kind), tmp_path, "published", config=fields)).layer.rope.theta == theta


def test_rope_scaling_is_the_heads_own(tmp_path: Path) -> None:
    scaling = {"rope_type": "linear", "factor": 4.0}
    folder = save_head(TinyHead(), tmp_path, "published", config={"rope_scaling": scaling})
    assert read(folder).layer.rope.factor == 4.0


def test_nvidias_norm_is_under_eagle_config(tmp_path: Path) -> None:
    inner = {"norm_before_fc": True, "eagle_aux_hidden_state_layer_ids": [2, 4, 5]}
    head = TinyHead(joint_norm=True)
    assert (
        read(save_head(head, tmp_path, "specforge", config={"eagle_config": inner})).feature_norm == "joint"
    )
    assert_tensors(opened(tmp_path), head.tensors)


def test_s16_a_smaller_vocabulary_needs_d2t(tmp_path: Path) -> None:
    refused(save_head(TinyHead(), tmp_path, "published", tensors={"d2t": None}), "has no d2t")


def test_s17_zeros_are_the_identity(tmp_path: Path) -> None:
    zeros: dict[str, Tensor | None] = {"d2t": torch.zeros(40, dtype=torch.int64)}
    folder = save_head(TinyHead(), tmp_path, "published", tensors=zeros)
    assert target_ids(opened(folder), read(folder)).tolist() == list(range(40))


def test_equal_vocabularies_need_no_mapping(tmp_path: Path) -> None:
    head = TinyHead(draft_vocab=100)
    for name, config in (("stated", {}), ("unstated", {"draft_vocab_size": None})):
        changes: dict[str, Any] = {"config": config, "tensors": {"d2t": None, "t2d": None}}
        folder = save_head(head, tmp_path / name, "specforge", **changes)
        assert target_ids(opened(folder), read(folder)).tolist() == list(range(100))


def mapping(ids: list[int]) -> dict[str, Tensor | None]:
    return {"d2t": torch.tensor(ids) - torch.arange(40), "t2d": None}


def test_s18_a_padded_draft_vocabulary_says_each_token_once(tmp_path: Path) -> None:
    padded = [5, 9, 30, *[0] * 36, 9]
    folder = save_head(TinyHead(), tmp_path, "published", tensors=mapping(padded))
    ids = target_ids(opened(folder), read(folder))
    assert ids[sayable(ids, 100)].tolist() == [5, 9, 30, 0]


def test_s19_a_vocabulary_that_differs_by_padding(tmp_path: Path) -> None:
    target = replace(TARGET, vocab_size=151936)
    ids = [*range(0, 39000, 1000), 152000]
    changes: dict[str, Any] = {"config": {"vocab_size": 152064}, "tensors": mapping(ids)}
    folder = save_head(TinyHead(), tmp_path, "published", **changes)
    found = target_ids(opened(folder, target), read(folder, target))
    assert found[sayable(found, target.vocab_size)].tolist() == ids[:-1]
    other = replace(TARGET, vocab_size=152064)
    narrow = save_head(TinyHead("eagle"), tmp_path / "narrow", "published", config={"vocab_size": 151936})
    assert read(narrow, other).vocab_size == 151936


@pytest.mark.parametrize("vocab_size", [128256, 152064 + 512, 32000])
def test_s20_a_vocabulary_of_another_model(tmp_path: Path, vocab_size: int) -> None:
    folder = save_head(TinyHead(), tmp_path, "published", config={"vocab_size": 152064})
    refused(
        folder, "for another model: its vocabulary has 152064 tokens", replace(TARGET, vocab_size=vocab_size)
    )


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([2 * i for i in range(40)], "holds token ids, not offsets"),
        ([-1, *range(1, 40)], "leaves the vocabulary"),
        ([*range(39), 100], "leaves the vocabulary"),
    ],
)
def test_mappings_that_lead_elsewhere(tmp_path: Path, ids: list[int], message: str) -> None:
    refused(save_head(TinyHead(), tmp_path, "published", tensors=mapping(ids)), message)


def test_a_mapping_of_another_length(tmp_path: Path) -> None:
    short: dict[str, Tensor | None] = {"d2t": torch.ones(39, dtype=torch.int64)}
    refused(save_head(TinyHead(), tmp_path, "published", tensors=short), r"d2t of shape \[39\]")


@pytest.mark.parametrize("t2d", [torch.zeros(100, dtype=torch.bool), torch.ones(10, dtype=torch.bool)])
def test_a_mapping_that_its_mask_contradicts(tmp_path: Path, t2d: Tensor) -> None:
    refused(save_head(TinyHead(), tmp_path, "published", tensors={"t2d": t2d}), "contradict")


def own_embedding(seed: int, width: int = D) -> Tensor:
    return torch.randn(100, width, generator=torch.Generator().manual_seed(seed))


def test_eagle3_may_bring_its_own_embeddings(tmp_path: Path) -> None:
    own = own_embedding(1)
    folder = save_head(TinyHead(), tmp_path, "speculators", tensors={"embed_tokens.weight": own})
    target = own_embedding(2)
    assert torch.equal(head_embedding(opened(folder), read(folder), target), own)
    longer = torch.cat((target, torch.ones(28, D)))  # the target's vocabulary is padded
    assert torch.equal(head_embedding(opened(folder), read(folder), longer)[:100], own)
    assert len(head_embedding(opened(folder), read(folder), longer)) == 128
    plain = save_head(TinyHead(), tmp_path / "plain", "speculators")
    assert head_embedding(opened(plain), read(plain), target) is target


def test_eagles_embeddings_are_a_copy_of_the_targets(tmp_path: Path) -> None:
    target = own_embedding(1)
    copy: dict[str, Tensor | None] = {"embed_tokens.weight": target.half()}
    folder = save_head(TinyHead("eagle"), tmp_path, "published", tensors=copy, pickled=True)
    assert head_embedding(opened(folder), read(folder), target) is target
    with pytest.raises(ModelLoadError, match="is for another model: its embeddings differ"):
        head_embedding(opened(folder), read(folder), own_embedding(2))


def test_a_head_of_another_width_needs_its_own_embeddings(tmp_path: Path) -> None:
    wide = replace(TARGET, hidden_size=128)
    changes: dict[str, Any] = {
        "config": {"target_hidden_size": 128},
        "tensors": {"fc.weight": torch.zeros(D, FEATURES * 128)},
    }
    folder = save_head(TinyHead(), tmp_path, "specforge", **changes)
    assert opened(folder, wide).get("fc.weight").shape == (D, FEATURES * 128)
    with pytest.raises(ModelLoadError, match="64 wide and has no embeddings of its own"):
        head_embedding(opened(folder, wide), read(folder, wide), own_embedding(1, 128))
    changes["tensors"]["embed_tokens.weight"] = own_embedding(1)
    folder = save_head(TinyHead(), tmp_path, "specforge", **changes)
    own = head_embedding(opened(folder, wide), read(folder, wide), own_embedding(1, 128))
    assert torch.equal(own, own_embedding(1))


def test_embeddings_of_the_wrong_size(tmp_path: Path) -> None:
    short: dict[str, Tensor | None] = {"embed_tokens.weight": own_embedding(1)[:50]}
    folder = save_head(TinyHead(), tmp_path, "specforge", tensors=short)
    with pytest.raises(ModelLoadError, match=r"embed_tokens.weight of head .* has shape \[50, 64\]"):
        head_embedding(opened(folder), read(folder), own_embedding(1))


@pytest.mark.parametrize("name", ["verifier_lm_head.weight", "layers.0.self_attn.rotary_emb.inv_freq"])
def test_what_trainers_leave_behind_is_ignored(tmp_path: Path, name: str) -> None:
    opened(save_head(TinyHead(), tmp_path, "speculators", tensors={name: torch.ones(3)}))


@pytest.mark.parametrize("name", ["layers.1.mlp.up_proj.weight", "embed_norm.weight", "fc.bias"])
def test_what_we_would_not_use_is_refused(tmp_path: Path, name: str) -> None:
    folder = save_head(TinyHead(), tmp_path, "speculators", tensors={name: torch.ones(3)})
    refused(folder, f"has a tensor {name} that its config.json has no use for")


@pytest.mark.parametrize(
    ("layout", "config", "message"),
    [
        ("specforge", {"hidden_size": 128}, "for another model: it was made for a hidden size of 128"),
        ("specforge", {"target_hidden_size": 32}, "for another model: it was made for a hidden size of 32"),
        ("specforge", {"num_hidden_layers": 2}, "it has 2 layers"),
        ("specforge", {"draft_vocab_size": 101}, "draft_vocab_size 101 exceeds"),
        ("specforge", {"draft_vocab_size": "many"}, "draft_vocab_size must be a whole number"),
        ("specforge", {"vocab_size": None}, "lacks vocab_size"),
        ("specforge", {"hidden_act": "relu"}, "activation 'relu' is not supported"),
        ("specforge", {"quantization_config": {"bits": 4}}, "quantised"),
        ("specforge", {"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
        ("specforge", {"eagle_config": [1, 2]}, "eagle_config must be a JSON object"),
        ("specforge", {"fc_norm": True, "norm_before_fc": True}, "exclude each other"),
        ("specforge", {"rope_scaling": {"rope_type": "longrope"}}, "rope scaling 'longrope'"),
        ("speculators", {"speculators_model_type": "dflash"}, "of type 'dflash' are not supported"),
        ("speculators", {"transformer_layer_config": {"model_type": "gpt_oss"}}, "'gpt_oss'"),
        (
            "speculators",
            {"speculators_config": {"verifier": {"architectures": ["Qwen3ForCausalLM"]}}},
            "for another model: a Qwen3ForCausalLM",
        ),
    ],
)
def test_configurations_that_do_not_fit(
    tmp_path: Path, layout: str, config: dict[str, Any], message: str
) -> None:
    refused(save_head(TinyHead(), tmp_path, layout, config=config), message)


def test_a_window_that_is_not_used_is_no_obstacle(tmp_path: Path) -> None:
    window = {"sliding_window": 512, "max_position_embeddings": 2048}
    refused(save_head(TinyHead("eagle"), tmp_path, "published", config=window), "sliding-window")
    for use in ({"use_sliding_window": False}, {"layer_types": ["full_attention"]}):
        read(save_head(TinyHead("eagle"), tmp_path, "published", config={**window, **use}))


def test_an_eagle_head_is_as_wide_as_its_target(tmp_path: Path) -> None:
    folder = save_head(TinyHead("eagle"), tmp_path, "published")
    refused(
        folder, "for another model: it was made for a hidden size of 64", replace(TARGET, hidden_size=128)
    )
