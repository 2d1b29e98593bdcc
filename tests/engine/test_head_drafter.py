"""A drafter's trees are those of the network run plainly, path by path, whatever the drafter did before."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_heads import D, DenseHead, TinyHead, save_head
from tiny_models import config_for, save_tiny, tiny_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from serving.config import ServeConfig
from serving.drafting.messages import Close, Extend, Open, Proposal, Propose, SeqKey
from serving.engine.build_drafter import build_network_drafter
from serving.engine.head import HeadFiles, drafting_fingerprint
from serving.engine.head_drafter import MAX_ROWS, HeadDrafter
from serving.spec.calibration import IDENTITY, CalibrationMaps, Method, origin_of
from serving.spec.growth import DynamicGrowth, Growth
from serving.spec.noise import gumbel, noise_key
from serving.spec.static_growth import static_growth
from serving.spec.tree import ROOT, DraftTree

VOCAB = 100
WIDE = {"max_nodes": 24, "max_depth": 4}
HEADS = {
    "eagle3": TinyHead(),
    "eagle3-normed-residual": TinyHead(norm_before_residual=True, seed=1),
    "eagle3-fed-normed": TinyHead(norm_output=True, seed=2),
    "eagle3-qwen3": TinyHead(qk_norm=True, theta=1e6, seed=3),
    "eagle3-biases": TinyHead(biases=True, seed=4),
    "eagle": TinyHead("eagle", seed=5),
    "eagle-biases": TinyHead("eagle", biases=True, theta=5e5, seed=6),
}


SEED, SPREAD = 2**63 + 12345, 0.6


class Text:
    """A sequence as its verifier knows it: tokens, and the feature of each position."""

    def __init__(
        self, seed: int, length: int = 70, seq_id: int | None = None, temperature: float = 0.0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.key = SeqKey("verifier", seed if seq_id is None else seq_id)
        self.temperature = temperature
        self.tokens = rng.integers(0, VOCAB, length)
        self.features = rng.standard_normal((length, D), np.float32)

    def open(self, fingerprint: str) -> Open:
        return Open(self.key, fingerprint, SEED, choice_index=2, temperature=self.temperature)

    def extend(self, start: int, base_len: int) -> Extend:
        return Extend(
            self.key,
            start,
            base_len,
            self.tokens[start + 1 : base_len].astype(np.int32),
            int(self.tokens[0]) if start == 0 else None,
            self.features[start : base_len - 1],
        )


class Dense:
    """The network over whole texts: children of a node as distribution over the target's tokens."""

    def __init__(self, target: Path, head: TinyHead | None) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(target).double()
        self.head = head
        if head is not None:
            embedding, lm_head = self.model.get_input_embeddings(), self.model.get_output_embeddings()
            self.dense = DenseHead(head, embedding.weight.detach(), lm_head.weight.detach())

    @torch.no_grad()
    def log_q(self, text: Text, base_len: int, path: Sequence[int]) -> Tensor:
        """float64 [draft_vocab], for the token that follows committed text and `path`."""
        if self.head is None:
            tokens = [*text.tokens[:base_len].tolist(), *path]
            return self.model(torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
        hidden = torch.from_numpy(text.features[: base_len - 1]).double()
        tokens = text.tokens[1:base_len].tolist()
        out = self.dense.outputs(tokens, hidden)
        for token in path:
            hidden, tokens = torch.cat((hidden, out[-1:])), [*tokens, token]
            out = self.dense.outputs(tokens, hidden)
        return self.dense.logits(out[-1:])[0].log_softmax(-1)

    def log_drawn(self, text: Text, base_len: int, path: Sequence[int]) -> Tensor:
        """As log_q, but of being drawn with the target's noise for that position."""
        log_q = self.log_q(text, base_len, path)
        if not text.temperature:
            return log_q
        noise = gumbel(self.target_ids.numpy(), noise_key(SEED, 2, base_len + len(path)))
        return ((log_q / text.temperature + torch.from_numpy(noise)) / SPREAD).log_softmax(-1)

    @property
    def target_ids(self) -> Tensor:
        return torch.arange(VOCAB) if self.head is None else self.head.target_ids

    def tree(
        self,
        text: Text,
        base_len: int,
        max_nodes: int,
        max_depth: int,
        growth: Growth,
        calibration: CalibrationMaps = IDENTITY,
    ) -> DraftTree:
        """What the growth makes of it."""
        origin = origin_of(Method.NETWORK, text.temperature > 0)
        grower, paths = growth.start(max_nodes, 0.0), {ROOT: ()}
        level = [ROOT]
        for depth in range(1, max_depth + 1):
            top = [self.log_drawn(text, base_len, paths[node]).topk(growth.width) for node in level]
            tokens = np.stack([self.target_ids[t.indices].numpy() for t in top])
            raw = np.stack([t.values.float().numpy() for t in top])
            log_q = calibration.apply(raw, np.full(len(raw), origin), depth)
            nodes = grower.offer(level, tokens, log_q, raw)
            paths |= {node.place: (*paths[node.parent], node.token_id) for node in nodes}
            level = [node.place for node in nodes]
            if not level:
                break
        return grower.tree(text.key.seq_id, base_len, origin)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its context is longer than any network's here that drafts for it."""
    model = tiny_model(head_dim=32, max_position_embeddings=4096)
    return save_tiny(tmp_path_factory.mktemp("target") / "llama", model)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft model, of another family and shape."""
    model = tiny_model(seed=7, model_type="qwen3", head_dim=16, hidden_size=48, tie_word_embeddings=True)
    return save_tiny(tmp_path_factory.mktemp("small") / "qwen3", model)


def config(target: Path, backend: str = "native", dtype: str = "float32", **speculation: Any) -> ServeConfig:
    base = config_for(target, dtype, attention_backend=backend)
    given = {
        "beam": 5,
        "placement": "colocated",
        "coupling_spread": SPREAD,
        "min_level_reach": 0.0,
        **speculation,
    }
    return ServeConfig.model_validate({**base.model_dump(), "speculation": given})


def fingerprint(of: ServeConfig) -> str:
    target = Path(of.model)
    return (
        drafting_fingerprint(target) if of.speculation.draft_model else HeadFiles.find(of, target).fingerprint
    )


class Drafting:
    """A drafter with the fingerprint it answers to."""

    def __init__(self, of: ServeConfig) -> None:
        self.fingerprint, self.drafter = fingerprint(of), build_network_drafter(of)

    def open(self, *texts: Text) -> None:
        for text in texts:
            self.drafter.open(text.open(self.fingerprint))

    def propose(
        self,
        *extends: Extend,
        max_nodes: int = 24,
        max_depth: int = 4,
        calibration: CalibrationMaps = IDENTITY,
    ) -> Proposal:
        bounds = ((limit,) * len(extends) for limit in (max_nodes, max_depth))
        proposal = self.drafter.propose(Propose(extends, *bounds, calibration=calibration))
        self.drafter._sequences.check_integrity()
        return proposal

    def tree(self, extend: Extend, **bounds: int) -> DraftTree:
        proposal = self.propose(extend, **bounds)
        assert proposal.unknown == ()
        return proposal.trees[0]

    def fresh(self, text: Text, base_len: int, **bounds: int) -> DraftTree:
        """As a drafter that never saw the text would draft."""
        self.open(text)
        return self.tree(text.extend(0, base_len), **bounds)


@pytest.fixture(scope="module")
def eagle3(target: Path, tmp_path_factory: pytest.TempPathFactory) -> ServeConfig:
    head = save_head(HEADS["eagle3"], tmp_path_factory.mktemp("heads"), "specforge")
    return config(target, method="eagle3", head=str(head))


@pytest.fixture(params=["eagle3", "eagle", "draft_model"])
def any_method(request: pytest.FixtureRequest, target: Path, small: Path, tmp_path: Path) -> ServeConfig:
    if request.param == "draft_model":
        return config(target, method="draft_model", draft_model=str(small))
    head = save_head(HEADS[request.param], tmp_path, "published")
    return config(target, method=request.param, head=str(head))


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("method", ["eagle3", "draft_model"])
def test_sampled_trees_are_drawn_with_the_noise_of_the_target(
    target: Path, small: Path, tmp_path: Path, method: str, backend: str
) -> None:
    if method == "eagle3":
        made = {"head": str(save_head(HEADS["eagle3"], tmp_path, "specforge"))}
        dense = Dense(target, HEADS["eagle3"])
    else:
        made, dense = {"draft_model": str(small)}, Dense(small, None)
    drafting, growth = Drafting(config(target, backend, method=method, **made)), DynamicGrowth(5)
    texts = [Text(1, temperature=0.7), Text(2), Text(3, temperature=1.3)]
    drafting.open(*texts)
    proposal = drafting.propose(*(text.extend(0, 20) for text in texts), **WIDE)
    for text, tree in zip(texts, proposal.trees, strict=True):
        assert_same(tree, dense.tree(text, 20, growth=growth, **WIDE), tolerance=5e-4)


@pytest.mark.parametrize("tree", ["dynamic", "static"])
def test_trees_grow_by_calibrated_confidences(target: Path, eagle3: ServeConfig, tree: str) -> None:
    """Greedy and sampled sequences in one batch, each level by its own map; raw confidences are kept."""
    shape = [[0], [1], [0, 0], [1, 1], [0, 0, 0]]
    growth = DynamicGrowth(5) if tree == "dynamic" else static_growth(shape)
    drafting = Drafting(config_change(eagle3, tree=tree, static_tree=shape if tree == "static" else None))
    values = IDENTITY.values.copy()
    for depth in range(3):
        values[origin_of(Method.NETWORK, sampled=False), depth] **= 1.5 - depth / 2
        values[origin_of(Method.NETWORK, sampled=True), depth] **= 0.5 + depth / 2
    calibration, dense = CalibrationMaps(1, values), Dense(target, HEADS["eagle3"])
    texts = [Text(1, temperature=0.7), Text(2), Text(3, temperature=1.3)]
    drafting.open(*texts)
    bounds = {"max_nodes": 12, "max_depth": 3}
    extends = [text.extend(0, 20) for text in texts]
    proposal = drafting.propose(*extends, **bounds, calibration=calibration)
    for text, drafted in zip(texts, proposal.trees, strict=True):
        expected = dense.tree(text, 20, growth=growth, calibration=calibration, **bounds)
        assert_same(drafted, expected, tolerance=2e-3)
        np.testing.assert_allclose(drafted.raw, expected.raw, rtol=0, atol=2e-3)
        assert drafted.origins.tolist() == expected.origins.tolist()
        assert np.abs(drafted.raw - drafted.log_confidence).max() > 0.1
        pickle.loads(pickle.dumps(drafted)).__post_init__()  # in order for whoever receives it, too


def test_coupling_can_be_left_out(eagle3: ServeConfig) -> None:
    plain = eagle3.speculation.model_copy(update={"coupled": False})
    drafting = Drafting(eagle3.model_copy(update={"speculation": plain}))
    greedy, sampled = (drafting.fresh(Text(1, temperature=t), 20, **WIDE) for t in (0.0, 1.0))
    assert_same(sampled, greedy, exact=True)


def assert_same(tree: DraftTree, expected: DraftTree, exact: bool = False, tolerance: float = 2e-4) -> None:
    assert len(tree) == len(expected)
    assert tree.base_len == expected.base_len
    assert tree.token_ids.tolist() == expected.token_ids.tolist()
    assert tree.parents.tolist() == expected.parents.tolist()
    np.testing.assert_allclose(
        tree.log_confidence, expected.log_confidence, rtol=0, atol=0.0 if exact else tolerance
    )


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("name", HEADS)
def test_a_heads_trees_are_those_of_the_plain_network(
    target: Path, tmp_path: Path, name: str, backend: str
) -> None:
    head, text = HEADS[name], Text(1)
    folder = save_head(head, tmp_path, "published" if head.kind == "eagle" else "speculators")
    drafting = Drafting(config(target, backend, method=head.kind, head=str(folder)))
    dense, growth = Dense(target, head), DynamicGrowth(5)
    assert_same(drafting.fresh(text, 20, **WIDE), dense.tree(text, 20, growth=growth, **WIDE))
    assert_same(drafting.tree(text.extend(19, 24), **WIDE), dense.tree(text, 24, growth=growth, **WIDE))


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_models_trees_are_those_of_the_plain_model(target: Path, small: Path, backend: str) -> None:
    text = Text(2)
    drafting = Drafting(config(target, backend, method="draft_model", draft_model=str(small)))
    dense, growth = Dense(small, None), DynamicGrowth(5)
    assert_same(drafting.fresh(text, 20, **WIDE), dense.tree(text, 20, growth=growth, **WIDE))
    assert_same(drafting.tree(text.extend(19, 24), **WIDE), dense.tree(text, 24, growth=growth, **WIDE))


def test_a_static_tree_has_its_shape(target: Path, eagle3: ServeConfig) -> None:
    paths = [[0], [1], [2], [0, 0], [0, 2], [0, 2, 1], [2, 0]]
    static = config_change(eagle3, tree="static", static_tree=paths)
    text, growth = Text(3), static_growth(paths)
    tree = Drafting(static).fresh(text, 20)
    assert_same(tree, Dense(target, HEADS["eagle3"]).tree(text, 20, 24, 4, growth))
    assert sorted(tree.depths.tolist()) == [1, 1, 1, 2, 2, 2, 3]


def test_a_batch_is_each_of_its_sequences(any_method: ServeConfig) -> None:
    """Of different lengths, depths and sizes, in one call; with the CPU kernels to the bit."""
    drafting, texts = Drafting(any_method), [Text(seed) for seed in range(5)]
    lengths, nodes, depths = (2, 17, 33, 40, 64), (24, 1, 8, 0, 60), (4, 1, 3, 2, 6)
    alone = [
        drafting.fresh(text, length, max_nodes=n, max_depth=d)
        for text, length, n, d in zip(texts, lengths, nodes, depths, strict=True)
    ]
    drafting.open(*texts)
    extends = tuple(text.extend(0, length) for text, length in zip(texts, lengths, strict=True))
    together = drafting.drafter.propose(Propose(extends, nodes, depths)).trees
    for tree, expected in zip(together, alone, strict=True):
        assert_same(tree, expected, exact=True)


def test_text_in_pieces_is_text_at_once(any_method: ServeConfig) -> None:
    drafting, text = Drafting(any_method), Text(4)
    expected = drafting.fresh(text, 60)
    drafting.open(text)
    start = 0
    for base_len in (2, 3, 19, 20, 47, 60):
        tree = drafting.tree(text.extend(start, base_len))
        start = base_len - 1
    assert_same(tree, expected, exact=True)


def test_a_rejected_tree_leaves_nothing_behind(any_method: ServeConfig) -> None:
    """Whether nothing, something or all of the last tree came true."""
    drafting, text = Drafting(any_method), Text(5)
    tree = drafting.fresh(text, 30)
    path = _deepest(tree)
    for accepted in range(len(path) + 1):
        text.tokens[30 : 30 + accepted] = path[:accepted]
        expected = drafting.fresh(text, 31 + accepted)
        drafting.fresh(text, 30)
        assert_same(drafting.tree(text.extend(29, 31 + accepted)), expected, exact=True)


def _deepest(tree: DraftTree) -> list[int]:
    node, path = int(np.argmax(tree.depths)), []
    while node != ROOT:
        path.append(int(tree.token_ids[node]))
        node = int(tree.parents[node])
    return path[::-1]


def test_long_texts_are_fed_in_chunks(any_method: ServeConfig) -> None:
    longer = config_change(any_method, draft_kv_cache_memory=2**22)
    drafting = Drafting(longer)
    texts = [Text(6, 2 * MAX_ROWS + 40), Text(7, 40), Text(8, MAX_ROWS)]
    expected = [drafting.fresh(text, len(text.tokens)) for text in texts]
    drafting.open(*texts)
    proposal = drafting.propose(*(text.extend(0, len(text.tokens)) for text in texts))
    for tree, alone in zip(proposal.trees, expected, strict=True):
        assert_same(tree, alone, exact=True)
    drafting.open(texts[0])
    drafting.tree(texts[0].extend(0, 100))
    assert_same(drafting.tree(texts[0].extend(99, len(texts[0].tokens))), expected[0], exact=True)


def config_change(of: ServeConfig, **speculation: Any) -> ServeConfig:
    values = {**of.speculation.model_dump(), **speculation}
    return ServeConfig.model_validate({**of.model_dump(), "speculation": values})


@pytest.mark.parametrize("any_method", ["eagle3", "eagle"], indirect=True)
def test_s12_a_row_of_nan_drafts_nothing_and_harms_nobody(any_method: ServeConfig) -> None:
    drafting, sick, sound = Drafting(any_method), Text(9), Text(10)
    expected = drafting.fresh(sound, 30)
    sick.features[28] = np.nan
    drafting.open(sick, sound)
    trees = drafting.propose(sick.extend(0, 30), sound.extend(0, 30)).trees
    assert len(trees[0]) == 0
    assert_same(trees[1], expected, exact=True)


def test_features_may_come_in_another_dtype(eagle3: ServeConfig) -> None:
    """Verifier and drafter choose theirs by measurement, each for itself."""
    drafting, text = Drafting(eagle3), Text(11)
    as_bfloat16 = torch.from_numpy(text.features).bfloat16()
    text.features = as_bfloat16.float().numpy()
    expected = drafting.fresh(text, 30)
    extend = replace(text.extend(0, 30), features=as_bfloat16[:29].view(torch.uint16).numpy())
    drafting.open(text)
    assert_same(drafting.tree(extend), expected, exact=True)


def test_who_was_not_opened_is_unknown(any_method: ServeConfig) -> None:
    drafting, text, other = Drafting(any_method), Text(12), Text(13)
    drafting.open(text)
    assert drafting.propose(other.extend(0, 20)).unknown == (other.key,)
    proposal = drafting.propose(text.extend(0, 20), other.extend(0, 20))
    assert proposal.unknown == (other.key,)
    assert [tree.seq_id for tree in proposal.trees] == [text.key.seq_id]
    drafting.drafter.close(Close((text.key, other.key)))
    assert drafting.propose(text.extend(19, 25)).unknown == (text.key,)


def test_another_fingerprint_stays_unknown(any_method: ServeConfig) -> None:
    drafting, text = Drafting(any_method), Text(14)
    drafting.drafter.open(text.open("another target's"))
    assert drafting.propose(text.extend(0, 20)).unknown == (text.key,)


@pytest.mark.parametrize("start", [5, 25])
def test_a_gap_or_a_repetition_is_unknown_and_forgotten(any_method: ServeConfig, start: int) -> None:
    drafting, text = Drafting(any_method), Text(15)
    drafting.fresh(text, 20)
    assert drafting.propose(text.extend(start, 30)).unknown == (text.key,)
    assert drafting.propose(text.extend(19, 30)).unknown == (text.key,)
    assert len(drafting.fresh(text, 30))


def test_a_text_past_the_targets_context_is_unknown(any_method: ServeConfig) -> None:
    drafting, text = Drafting(config_change(any_method, draft_kv_cache_memory=2**23)), Text(17, 4200)
    drafting.open(text)
    assert drafting.propose(text.extend(0, 4150)).unknown == (text.key,)


def test_a_lease_ends_in_silence(any_method: ServeConfig) -> None:
    drafting, kept, silent = Drafting(config_change(any_method, lease_s=30.0)), Text(18), Text(19)
    now = 0.0
    drafting.drafter._sequences._clock = lambda: now
    drafting.open(kept, silent)
    drafting.propose(kept.extend(0, 20), silent.extend(0, 20))
    now = 20.0
    drafting.tree(kept.extend(19, 21))
    now = 31.0
    assert drafting.propose(silent.extend(19, 21), kept.extend(20, 22)).unknown == (silent.key,)
    drafting.drafter.close(Close((kept.key,)))
    assert drafting.drafter._sequences._blocks.num_free == blocks_of(drafting.drafter)


def test_a_head_cannot_do_without_features(eagle3: ServeConfig) -> None:
    drafting, text = Drafting(eagle3), Text(16)
    drafting.open(text)
    assert drafting.propose(replace(text.extend(0, 20), features=None)).unknown == (text.key,)


def blocks_of(drafter: HeadDrafter) -> int:
    return drafter._sequences._blocks.num_blocks


def test_when_memory_runs_out_the_longest_silent_goes(any_method: ServeConfig) -> None:
    """Each of the texts takes five blocks of 16 slots and its tree at most two."""
    drafting = Drafting(config_change(any_method, draft_kv_cache_memory=2**17, beam=2))
    room = blocks_of(drafting.drafter) // 5
    texts = [Text(seed, 90) for seed in range(20, 20 + room + 1)]
    expected = [drafting.fresh(text, 70) for text in texts]
    drafting.open(*texts)
    for text in texts[:-1]:
        drafting.tree(text.extend(0, 70))
    drafting.tree(texts[0].extend(69, 71))  # no longer the longest silent
    assert_same(drafting.tree(texts[-1].extend(0, 70)), expected[-1], exact=True)
    gone = [text.key for text in texts if text.key not in drafting.drafter._sequences]
    assert gone
    assert gone == [text.key for text in texts[1 : 1 + len(gone)]]
    assert drafting.propose(texts[1].extend(69, 72)).unknown == (texts[1].key,)
    drafting.drafter.close(Close(tuple(text.key for text in texts)))
    assert drafting.drafter._sequences._blocks.num_free == blocks_of(drafting.drafter)


def test_a_batch_that_does_not_fit_is_served_in_part(any_method: ServeConfig) -> None:
    drafting = Drafting(config_change(any_method, draft_kv_cache_memory=2**17, beam=2))
    texts = [Text(seed, 90) for seed in range(20, 21 + blocks_of(drafting.drafter) // 5)]
    drafting.open(*texts)
    proposal = drafting.propose(*(text.extend(0, 70) for text in texts))
    assert proposal.trees
    assert proposal.unknown
    assert len(proposal.trees) + len(proposal.unknown) == len(texts)


def test_s13_a_head_goes_on_past_its_own_positions(target: Path, eagle3: ServeConfig) -> None:
    """Its max_position_embeddings is 2048; rotation has no end, so trees are still the plain network's."""
    text = Text(30, 2100)
    long = config_change(eagle3, draft_kv_cache_memory=2**21)
    tree = Drafting(long).fresh(text, 2060, max_nodes=5, max_depth=1)
    expected = Dense(target, HEADS["eagle3"]).tree(text, 2060, 5, 1, DynamicGrowth(5))
    assert_same(tree, expected)
