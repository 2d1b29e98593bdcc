"""Attention over the paged cache: who sees whom, and that a draft node sees what plain decoding would see."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from packing import pack, path_of, random_tree, sequence
from tiny_models import SMALL
from torch import Tensor

from serving.config import ServeConfig
from serving.engine.attention.base import AttentionBackend
from serving.engine.attention.native import NativeAttention
from serving.engine.attention.torch_backend import RowInvariantAttention, TorchAttention, visible_rows
from serving.engine.batch import Batch, Packer
from serving.engine.scheduler import Prefill
from serving.engine.sequence import Sequence
from serving.kernels.native import DTYPES, Kernels
from serving.models.architecture import Architecture
from serving.models.decoder import HeadNorms
from serving.spec.tree import DraftTree

MAX_LEN = 256


@dataclass(frozen=True)
class Shape:
    """layers is 2 everywhere: a cache that mixed them up would show."""

    heads: int
    kv_heads: int
    dim: int
    block_size: int
    qk_norm: bool = False

    def __str__(self) -> str:
        return f"{self.heads}of{self.kv_heads}x{self.dim}-{self.block_size}{'-norm' * self.qk_norm}"

    @property
    def architecture(self) -> Architecture:
        return Architecture.from_hf(
            {
                **SMALL,
                "model_type": "qwen3" if self.qk_norm else "llama",
                "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads,
                "head_dim": self.dim,
            }
        )

    @property
    def width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.dim

    @property
    def num_blocks(self) -> int:
        return 1024 // self.block_size

    def norms(self, dtype: torch.dtype) -> list[HeadNorms | None]:
        if not self.qk_norm:
            return [None, None]
        torch.manual_seed(5)
        weights = (torch.rand(4, self.dim) + 0.5).to(dtype)
        return [HeadNorms(weights[0], weights[1]), HeadNorms(weights[2], weights[3])]


SHAPES = [
    Shape(4, 4, 16, 16),
    Shape(4, 2, 64, 16),
    Shape(6, 2, 64, 32),
    Shape(7, 1, 16, 64),
    Shape(2, 2, 128, 32, qk_norm=True),
    Shape(8, 1, 32, 16, qk_norm=True),
]
PRECISION = {torch.float32: 2e-5, torch.bfloat16: 3e-2}


def native(shape: Shape, dtype: torch.dtype, threads: int = 1) -> NativeAttention:
    return NativeAttention(
        shape.architecture,
        Kernels(dtype, ServeConfig().cache_dir),
        shape.norms(dtype),
        num_blocks=shape.num_blocks,
        block_size=shape.block_size,
        max_model_len=MAX_LEN,
        threads=threads,
    )


def plain_torch(
    shape: Shape, dtype: torch.dtype, made: type[TorchAttention] = TorchAttention
) -> TorchAttention:
    return made(
        shape.architecture,
        shape.norms(dtype),
        num_blocks=shape.num_blocks,
        block_size=shape.block_size,
        max_model_len=MAX_LEN,
        dtype=dtype,
        device=torch.device("cpu"),
    )


def row_invariant(shape: Shape, dtype: torch.dtype, threads: int = 1) -> TorchAttention:
    torch.set_num_threads(threads)
    return plain_torch(shape, dtype, RowInvariantAttention)


@pytest.fixture(autouse=True)
def torchs_threads() -> Iterator[None]:
    """As they were, after a test."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@dataclass
class Text:
    """A sequence with what the layers below would feed to attention: committed rows, and a row per node.

    rows: [MAX_LEN, width]. Its blocks are anywhere in the cache, as a running service leaves them.
    """

    shape: Shape
    dtype: torch.dtype
    seed: int
    table: list[int]
    rows: Tensor = field(init=False)
    node_rows: Tensor = field(init=False)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.rows = torch.randn(MAX_LEN, self.shape.width, generator=generator).to(self.dtype)
        self.node_rows = torch.randn(64, self.shape.width, generator=generator).to(self.dtype)

    def at(self, length: int, computed: int) -> Sequence:
        return sequence(range(length), computed, self.table, self.seed)

    def slot(self, position: int) -> int:
        block, offset = divmod(position, self.shape.block_size)
        return self.table[block] * self.shape.block_size + offset


def texts(shape: Shape, dtype: torch.dtype, count: int) -> list[Text]:
    each = MAX_LEN // shape.block_size
    blocks = np.random.default_rng(0).permutation(shape.num_blocks).tolist()
    return [Text(shape, dtype, i, blocks[i * each : (i + 1) * each]) for i in range(count)]


class Runner:
    """Feeds packed steps to a backend, all layers, the second with other rows than the first."""

    def __init__(self, backend: AttentionBackend, shape: Shape) -> None:
        self.backend = backend
        self.packer = Packer(600, 8, MAX_LEN // shape.block_size, shape.block_size)

    def step(
        self,
        decodes: Seq[tuple[Text, int, DraftTree]] = (),
        prefills: Seq[tuple[Text, int, int]] = (),
    ) -> Tensor:
        """Decodes at `context` committed positions, chunks from start to stop. [layers, rows, H * D]."""
        batch = pack(
            self.packer,
            [(text.at(context + 1, context), tree) for text, context, tree in decodes],
            [Prefill(text.at(stop, start), start, stop - start) for text, start, stop in prefills],
        )
        rows = [torch.cat([t.rows[c : c + 1], t.node_rows[: len(tree)]]) for t, c, tree in decodes]
        rows += [text.rows[start:stop] for text, start, stop in prefills]
        return self.run(batch, torch.cat(rows))

    def decode(self, text: Text, context: int, row: Tensor) -> Tensor:
        """One plain token whose row is given: [layers, 1, H * D]."""
        empty = DraftTree.empty(text.seed, context + 1)
        return self.run(pack(self.packer, [(text.at(context + 1, context), empty)]), row.unsqueeze(0))

    def run(self, batch: Batch, rows: Tensor) -> Tensor:
        self.backend.begin(batch)
        return torch.stack([self.backend(0, rows.clone()), self.backend(1, rows.flip(1).contiguous())])


# ---- what a row sees ----

#  root - a - c - e
#     \ - b - d
SMALL_TREE = DraftTree.build(
    0, 6, [11, 12, 13, 14, 15], [-1, -1, 0, 1, 2], np.log([0.6, 0.5, 0.8, 0.9, 0.9]).astype(np.float32)
)


def test_visible_rows_of_a_tree() -> None:
    seq = sequence(range(6), computed=5, table=[0])
    batch = pack(Packer(16, 2, 4, 16), [(sequence([1], 0, [1]), DraftTree.empty(1, 1)), (seq, SMALL_TREE)])
    assert visible_rows(batch, 0).tolist() == [[True]]
    assert visible_rows(batch, 1).astype(int).tolist() == [
        # root a  b  c  d  e
        [1, 0, 0, 0, 0, 0],  # root
        [1, 1, 0, 0, 0, 0],  # a
        [1, 0, 1, 0, 0, 0],  # b
        [1, 1, 0, 1, 0, 0],  # c
        [1, 0, 1, 0, 1, 0],  # d
        [1, 1, 0, 1, 0, 1],  # e
    ]


def test_visible_rows_of_a_chunk() -> None:
    batch = pack(Packer(16, 2, 4, 16), prefills=[Prefill(sequence(range(9), 2, [0]), 2, 3)])
    assert visible_rows(batch, 0).astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


# ---- both backends ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_backends_agree_on_mixed_batches(shape: Shape, dtype: torch.dtype) -> None:
    """Trees, plain decodes, first chunks and later ones; contexts end within, at and behind a block's end."""
    rng = np.random.default_rng(1)
    made = texts(shape, dtype, 4)
    runners = [Runner(native(shape, dtype, threads=2), shape), Runner(plain_torch(shape, dtype), shape)]
    first = {"prefills": [(made[0], 0, 1), (made[1], 0, 31), (made[2], 0, 64)]}
    second = {
        "decodes": [
            (made[0], 1, random_tree(rng, 2, 30)),
            (made[1], 31, DraftTree.empty(1, 32)),
            (made[2], 64, random_tree(rng, 65, 7)),
        ],
        "prefills": [(made[3], 0, 50)],
    }
    third = {
        "decodes": [(made[2], 65, random_tree(rng, 66, 1))],
        "prefills": [(made[0], 1, 90), (made[3], 50, 53), (made[1], 31, 60)],
    }
    for step in (first, second, third):
        ours, theirs = (runner.step(**step) for runner in runners)
        torch.testing.assert_close(ours, theirs, atol=PRECISION[dtype], rtol=PRECISION[dtype])


@pytest.mark.parametrize("backend", ["native-float32", "native-bfloat16", "torch-float32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_accepted_path_is_moved_to_where_plain_decoding_has_it(shape: Shape, backend: str) -> None:
    """The next token sees the same cache whether its past was drafted or decoded."""
    name, dtype = backend.split("-")[0], getattr(torch, backend.split("-")[1])
    made = native if name == "native" else plain_torch
    drafted, decoded = Runner(made(shape, dtype), shape), Runner(made(shape, dtype), shape)
    (text,) = texts(shape, dtype, 1)
    for context in (3, 15, 60):
        tree = random_tree(np.random.default_rng(context), context + 1, 24)
        path = path_of(tree, 23)
        assert path != list(range(len(path))), "nothing would move"
        for runner in (drafted, decoded):
            runner.step(prefills=[(text, 0, context)])
        drafted.step([(text, context, tree)])
        source = [text.slot(context + 1 + node) for node in path]
        target = [text.slot(context + 1 + place) for place in range(len(path))]
        drafted.backend.move_slots(np.array(source, np.int32), np.array(target, np.int32))
        decoded.decode(text, context, text.rows[context])
        for place, node in enumerate(path):
            decoded.decode(text, context + 1 + place, text.node_rows[node])
        after = context + 1 + len(path)
        ours, plain = (r.decode(text, after, text.rows[after]) for r in (drafted, decoded))
        if name == "native":
            assert torch.equal(ours, plain)
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("made", [native, plain_torch])
def test_a_whole_sequence_can_be_moved(made) -> None:
    shape, dtype = SHAPES[1], torch.float32
    runner, (first, second) = Runner(made(shape, dtype), shape), texts(shape, dtype, 2)
    runner.step(prefills=[(first, 0, 40), (second, 0, 40)])
    before = [runner.decode(text, 40, text.rows[40]) for text in (first, second)]
    assert not torch.equal(*before)
    source, target = ([text.slot(position) for position in range(40)] for text in (first, second))
    runner.backend.move_slots(np.array(source, np.int32), np.array(target, np.int32))
    moved = Text(shape, dtype, 0, second.table)
    assert torch.equal(runner.decode(moved, 40, moved.rows[40]), before[0])


# ---- the same bits ----

INVARIANT = [(native, shape) for shape in SHAPES] + [(row_invariant, SHAPES[1]), (row_invariant, SHAPES[4])]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("made", "shape"), INVARIANT, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_draft_node_gets_the_bits_of_plain_decoding(made, shape: Shape, dtype: torch.dtype) -> None:
    """As a node among siblings, as a plain decode, as a row of a prompt: one result."""
    target, other = texts(shape, dtype, 2)
    for context, threads in ((1, 1), (14, 2), (47, 1)):
        tree = random_tree(np.random.default_rng(context), context + 1, 30)
        runner = Runner(made(shape, dtype, threads), shape)
        runner.step(prefills=[(target, 0, context), (other, 0, 20)])
        # In company, and alone.
        busy = runner.step(
            [(other, 20, random_tree(np.random.default_rng(9), 21, 5)), (target, context, tree)]
        )
        drafted = busy[:, 6:]
        assert torch.equal(runner.step([(target, context, tree)]), drafted)
        for leaf in set(range(30)) - set(tree.parents.tolist()):
            path = path_of(tree, leaf)
            plain = [runner.decode(target, context, target.rows[context])]
            plain += [
                runner.decode(target, context + 1 + place, target.node_rows[node])
                for place, node in enumerate(path)
            ]
            rows = [0, *(node + 1 for node in path)]
            assert torch.equal(torch.cat(plain, dim=1), drafted[:, rows])
            chunk = torch.cat([target.rows[context : context + 1], target.node_rows[path]])
            prefill = Prefill(target.at(context + len(chunk), context), context, len(chunk))
            assert torch.equal(runner.run(pack(runner.packer, prefills=[prefill]), chunk), drafted[:, rows])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("made", "shape"), INVARIANT, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_prompt_in_chunks_gets_the_bits_of_a_whole_one(made, shape: Shape, dtype: torch.dtype) -> None:
    text, other = texts(shape, dtype, 2)
    whole = Runner(made(shape, dtype), shape).step(prefills=[(text, 0, 130)])
    for seed, threads in ((1, 1), (2, 2)):
        rng = np.random.default_rng(seed)
        runner = Runner(made(shape, dtype, threads), shape)
        ends = sorted({*rng.integers(1, 130, 6).tolist(), 16, 17, 130})
        start = 0
        for end in ends:
            out = runner.step(prefills=[(other, 0, int(rng.integers(1, 30))), (text, start, end)])
            assert torch.equal(out[:, start - end :], whole[:, start:end])
            start = end


@pytest.mark.parametrize("made", [native, plain_torch])
@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_a_tree_can_be_computed_in_parts(shape: Shape, made) -> None:
    """As a head grows one: the rows of earlier calls are in the cache, and seen where they are ancestors."""
    (text,) = texts(shape, torch.float32, 1)
    tree = random_tree(np.random.default_rng(3), 31, 24)
    runner = Runner(made(shape, torch.float32), shape)
    runner.step(prefills=[(text, 0, 30)])
    rows = torch.cat([text.rows[30:31], text.node_rows[:24]])
    whole = pack(runner.packer, [(text.at(31, 30), tree)])
    expected = runner.run(whole, rows)
    parts = [
        runner.run(part(whole, *ends), rows[slice(*ends)]) for ends in ((0, 1), (1, 9), (9, 10), (10, 25))
    ]
    torch.testing.assert_close(
        torch.cat(parts, dim=1), expected, rtol=0, atol=0 if made is native else PRECISION[torch.float32]
    )


def part(batch: Batch, start: int, end: int) -> Batch:
    """Rows start .. end - 1 of a batch of one tree, those before them done."""
    cut = {name: getattr(batch, name)[start:end] for name in ("token_ids", "positions", "slots")}
    done, rows = np.array([start], np.int32), np.array([end - start], np.int32)
    return replace(batch, **cut, done=done, num_new=rows, is_chain=np.zeros(1, np.int32))


@pytest.mark.parametrize("made", [native, plain_torch])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spoil", ["query", "key", "value", "all"])
def test_nan_reaches_those_who_see_it_and_no_other_sequence(spoil: str, made, dtype: torch.dtype) -> None:
    """S11"""
    shape = SHAPES[1]
    spoilt, healthy = texts(shape, dtype, 2)
    runner = Runner(made(shape, dtype), shape)
    step = {"prefills": [(spoilt, 0, 40), (healthy, 0, 30)]}
    clean = runner.step(**step)
    heads = spoilt.rows[20].view(-1, shape.dim)
    first, last = {"query": (0, 4), "key": (4, 6), "value": (6, 8), "all": (0, 8)}[spoil]
    heads[first:last] = torch.nan
    out = runner.step(**step)[0]  # the second layer's rows are the first's reversed
    reached = slice(20, 21) if spoil == "query" else slice(20, 40)
    assert out[reached].isnan().all()
    assert torch.equal(out[40:], clean[0, 40:])
    after = runner.decode(spoilt, 40, spoilt.rows[40])[0]
    assert after.isnan().all() if spoil != "query" else after.isfinite().all()
    # What is left in freed blocks does no harm either.
    heir = Text(shape, dtype, 1, spoilt.table)
    alone = Runner(made(shape, dtype), shape).step(prefills=[(heir, 0, 30)])
    assert torch.equal(runner.step(prefills=[(heir, 0, 30)]), alone)


@pytest.mark.parametrize("made", [native, plain_torch])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_draft_that_is_not_finite_reaches_its_descendants_only(
    bad: float, made, dtype: torch.dtype
) -> None:
    shape = SHAPES[1]
    (text,) = texts(shape, dtype, 1)
    tree = random_tree(np.random.default_rng(7), 21, 20)
    runner = Runner(made(shape, dtype), shape)
    runner.step(prefills=[(text, 0, 20)])
    clean = runner.step([(text, 20, tree)])
    sees = tree.ancestor_mask()
    node = next(node for node in range(20) if 1 < sees[:, node].sum() < 10)
    text.node_rows[node] = bad
    out = runner.step([(text, 20, tree)])
    reached = torch.from_numpy(np.concatenate(([False], sees[:, node])))
    assert not out[:, reached].isfinite().any()
    assert torch.equal(out[:, ~reached], clean[:, ~reached])
