"""Linear layers of the CPU kernels: torch's values, and the same bits for a row in any company."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from serving.config import ServeConfig
from serving.kernels.native import DTYPES, Kernels
from serving.models.linear import Draws, Linear, NativeLinearOps, RowInvariantLinearOps, TorchLinearOps
from serving.spec.noise import NoiseKey, gumbel, noise_key

EPS = 1e-5
TOLERANCE = {torch.float32: 4e-6, torch.bfloat16: 2e-2}


def native(dtype: torch.dtype, threads: int = 1) -> NativeLinearOps:
    return NativeLinearOps(EPS, Kernels(dtype, ServeConfig().cache_dir), threads)


def row_invariant(threads: int) -> RowInvariantLinearOps:
    torch.set_num_threads(threads)
    return RowInvariantLinearOps(EPS)


@pytest.fixture(autouse=True)
def torchs_threads() -> Iterator[None]:
    """As they were, after a test."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@dataclass(frozen=True)
class Layers:
    """The four kinds of call, each as a function of x: [rows, inputs] -> [rows, outputs]."""

    ops: NativeLinearOps | TorchLinearOps
    norm: Tensor
    plain: Linear
    gate_up: Linear

    def linear(self, x: Tensor) -> Tensor:
        return self.ops.norm_linear(x, self.norm, self.plain)

    def swiglu(self, x: Tensor) -> Tensor:
        return self.ops.norm_swiglu(x, self.norm, self.gate_up)

    def add(self, x: Tensor) -> Tensor:
        """On the same residual in every row."""
        residual = torch.linspace(-1, 1, self.plain.out_features).to(x.dtype).repeat(len(x), 1)
        self.ops.add_linear(residual, x, self.plain)
        return residual

    def logits(self, x: Tensor) -> Tensor:
        return self.ops.norm_logits(x, self.norm, self.plain).clone()

    def embed(self, x: Tensor) -> Tensor:
        """x is counted, not read: one token per row."""
        return self.ops.embed(torch.arange(len(x)) * 5 % self.plain.out_features, self.plain)


CALLS = ("linear", "swiglu", "add", "logits", "embed")


def layers(
    ops: NativeLinearOps | TorchLinearOps, dtype: torch.dtype, outputs: int, inputs: int, bias: bool
) -> Layers:
    """The same random values whatever the ops."""
    torch.manual_seed(0)
    weights = [(torch.randn(outputs, inputs) * inputs**-0.5).to(dtype) for _ in range(3)]
    biases = [torch.randn(outputs).to(dtype) if bias else None for _ in range(3)]
    norm = (torch.rand(inputs) + 0.5).to(dtype)
    plain, gate, up = (ops.pack(w, b) for w, b in zip(weights, biases, strict=True))
    return Layers(ops, norm, plain, ops.pack_gate_up(gate, up))


def activations(rows: int, inputs: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(rows, inputs).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("outputs", "inputs"), [(16, 16), (48, 80), (64, 48), (80, 208), (144, 64)])
@pytest.mark.parametrize("call", CALLS)
def test_values_are_those_of_torch(
    call: str, outputs: int, inputs: int, bias: bool, dtype: torch.dtype
) -> None:
    ours = layers(native(dtype, threads=2), dtype, outputs, inputs, bias)
    theirs = layers(TorchLinearOps(EPS), dtype, outputs, inputs, bias)
    for rows in (1, 2, 3, 4, 5, 6, 7, 12, 13, 25, 40):
        x = activations(rows, inputs, dtype)
        got, expected = getattr(ours, call)(x), getattr(theirs, call)(x)
        torch.testing.assert_close(got, expected, atol=2 * TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("outputs", "inputs"), [(80, 208), (112, 48)])
def test_a_row_has_the_same_bits_in_any_company(
    call: str, outputs: int, inputs: int, dtype: torch.dtype
) -> None:
    x = activations(40, inputs, dtype)
    alone = layers(native(dtype), dtype, outputs, inputs, bias=True)
    expected = torch.cat([getattr(alone, call)(x[i : i + 1]) for i in range(40)])
    if call == "embed":
        expected = alone.embed(x)
    for threads in (1, 2, 3):
        together = layers(native(dtype, threads), dtype, outputs, inputs, bias=True)
        for rows in range(1, 41):
            assert torch.equal(getattr(together, call)(x[:rows]), expected[:rows]), rows
            assert torch.equal(getattr(together, call)(x[-rows:]), expected[-rows:]) or call == "embed", rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("outputs", "inputs", "threads"), [(80, 208, 1), (1536, 576, 2), (4099, 64, 3)])
@pytest.mark.parametrize("call", CALLS[:-1])
def test_a_row_has_the_same_bits_in_any_company_where_torch_is_deterministic(
    call: str, outputs: int, inputs: int, threads: int, dtype: torch.dtype
) -> None:
    """4099: three threads cut a tile of activations in the middle of a row."""
    compute = getattr(layers(row_invariant(threads), dtype, outputs, inputs, bias=True), call)
    x = activations(40, inputs, dtype)
    expected = torch.cat([compute(x[i : i + 1]) for i in range(40)])
    for rows in (2, 5, 16, 17, 40):
        assert torch.equal(compute(x[:rows]), expected[:rows]), rows
        assert torch.equal(compute(x[-rows:]), expected[-rows:]), rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", ["swiglu", "add", "logits"])
def test_a_row_has_the_same_bits_in_layers_of_a_real_size(call: str, dtype: torch.dtype) -> None:
    made = {threads: layers(native(dtype, threads), dtype, 1536, 576, bias=False) for threads in (1, 2)}
    x = activations(40, 576, dtype)
    expected = torch.cat([getattr(made[1], call)(x[i : i + 1]) for i in range(40)])
    for threads in (1, 2):
        for rows in (2, 5, 8, 13, 17, 40):
            assert torch.equal(getattr(made[threads], call)(x[:rows]), expected[:rows]), (rows, threads)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_vocabulary_of_any_size(dtype: torch.dtype) -> None:
    ours, theirs = native(dtype), TorchLinearOps(EPS)
    weight, bias = activations(100, 32, dtype), activations(100, 1, dtype).flatten()
    norm, x = torch.ones(32, dtype=dtype), activations(3, 32, dtype)
    logits = ours.norm_logits(x, norm, ours.pack(weight, bias))
    assert logits.dtype is torch.float32
    assert logits.shape == (3, 100)
    expected = theirs.norm_logits(x, norm, theirs.pack(weight, bias))
    torch.testing.assert_close(logits, expected, atol=10 * TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    ids = torch.tensor([99, 0, 17, 99])
    assert torch.equal(ours.embed(ids, ours.pack(weight)), weight[ids])


@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_of_any_number_of_rows_and_layers(dtype: torch.dtype) -> None:
    """None are wanted when every row is a prompt's middle."""
    ops = native(dtype)
    narrow, wide = ops.pack(activations(20, 16, dtype)), ops.pack(activations(50, 16, dtype))
    for rows, layer in ((0, narrow), (2, narrow), (0, narrow), (1, wide), (4, narrow)):
        logits = ops.norm_logits(activations(rows, 16, dtype), torch.ones(16, dtype=dtype), layer)
        assert logits.shape == (rows, layer.out_features)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_lies_behind_the_last_row_is_left_alone(dtype: torch.dtype) -> None:
    ops = native(dtype, threads=2)
    residual = torch.full((8, 48), 7.0, dtype=dtype)
    ops.add_linear(residual[:5], activations(5, 32, dtype), ops.pack(activations(48, 32, dtype)))
    assert (residual[:5] != 7).any()
    assert (residual[5:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", ["linear", "swiglu", "add", "logits"])
def test_nan_stays_nan_in_its_own_row(call: str, dtype: torch.dtype) -> None:
    """S11: a NaN that became a number would be served as an answer."""
    made = layers(native(dtype), dtype, 48, 32, bias=True)
    x = activations(13, 32, dtype)
    clean = getattr(made, call)(x)
    x[4, 9] = torch.nan
    spoilt = getattr(made, call)(x)
    assert spoilt[4].isnan().all()
    others = torch.arange(13) != 4
    assert torch.equal(spoilt[others], clean[others])


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_in_a_weight_spoils_its_output_only(dtype: torch.dtype) -> None:
    ops = native(dtype)
    weight = activations(100, 32, dtype)
    weight[37, 3] = torch.nan
    logits = ops.norm_logits(activations(7, 32, dtype), torch.ones(32, dtype=dtype), ops.pack(weight))
    assert torch.equal(logits.isnan(), (torch.arange(100) == 37).expand(7, 100))


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_over_the_whole_range(dtype: torch.dtype) -> None:
    """One input whose norm is its sign: the bias alone makes the gate. Far out, exp must neither
    overflow nor turn negative."""
    gate = torch.cat([torch.linspace(-120, 120, 1585), torch.linspace(-1, 1, 199), torch.zeros(8)]).to(dtype)
    gate[-3:] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    zeros, ones = torch.zeros(len(gate), 16, dtype=dtype), torch.ones(len(gate), dtype=dtype)
    ops = native(dtype)
    layer = ops.pack_gate_up(ops.pack(zeros, gate), ops.pack(zeros, ones))
    x = torch.ones(1, 16, dtype=dtype)
    got = ops.norm_swiglu(x, x[0], layer)[0].float()
    expected = F.silu(gate.double()).float()
    torch.testing.assert_close(got, expected, rtol=TOLERANCE[dtype], atol=1e-30, equal_nan=True)


def test_bfloat16_rounds_to_nearest_even() -> None:
    """Sums of two numbers are exact in float32, so the only rounding is the store's."""
    torch.manual_seed(3)
    pairs = torch.randn(4000, 2).bfloat16()
    pairs[:1000, 1] = pairs[:1000, 0] * 2.0**-8  # ties
    weight = torch.zeros(16, 16, dtype=torch.bfloat16)
    weight[:, :2] = 1
    x = F.pad(pairs, (0, 14))
    out = torch.zeros(len(x), 16, dtype=torch.bfloat16)
    native(torch.bfloat16).add_linear(out, x, native(torch.bfloat16).pack(weight))
    assert torch.equal(out[:, 0], pairs.float().sum(1).bfloat16())


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_side_by_side(dtype: torch.dtype) -> None:
    streams = activations(5, 3 * 48, dtype).view(5, 3, 48)
    weights = (torch.rand(3, 48) + 0.5).to(dtype)
    parts = tuple(zip(streams.unbind(1), weights.unbind(0), strict=True))
    expected = TorchLinearOps(EPS).norms(parts)
    torch.testing.assert_close(
        native(dtype).norms(parts), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("outputs", [5, 16, 1000, 6144])
@pytest.mark.parametrize("count", [1, 4, 8, 64])
def test_likeliest_tokens_are_those_of_torch(outputs: int, count: int, threads: int) -> None:
    torch.manual_seed(outputs)
    logits = (torch.randn(7, outputs + 3) * 8)[:, :outputs]
    logits[2] = logits[2].sort().values
    logits[3] = logits[3].sort(descending=True).values
    logits[4, ::2] = -torch.inf
    ours, torchs = (
        ops.likeliest(logits, count) for ops in (native(torch.float32, threads), TorchLinearOps(EPS))
    )
    finite = torchs.log_probs.isfinite()
    assert torch.equal(ours.ids[finite], torchs.ids[finite])
    torch.testing.assert_close(ours.log_probs[finite], torchs.log_probs[finite], rtol=0, atol=2e-6)
    assert not ours.log_probs[~finite].isfinite().any()


def test_of_equally_likely_tokens_the_first_is_named_first() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0] * 20])
    assert native(torch.float32).likeliest(logits, 4).ids.tolist() == [[1, 2, 4, 6]]


def test_a_row_that_is_not_finite_has_no_likeliest_tokens() -> None:
    logits = torch.zeros(3, 40)
    logits[0, 17], logits[1, 3] = torch.nan, torch.inf
    log_probs = native(torch.float32).likeliest(logits, 3).log_probs
    assert not log_probs[:2].isfinite().any()
    assert log_probs[2].isfinite().all()


@pytest.mark.parametrize("outputs", [5, 100, 6144])
def test_noise_is_that_of_the_target(outputs: int) -> None:
    torch.manual_seed(outputs)
    logits = torch.randn(4, outputs + 3) * 8
    token_ids = torch.randperm(50_000)[:outputs].to(torch.int32)
    keys = np.array([noise_key(seed, 1, 77) for seed in (0, 5, 2**64 - 1, 9)], np.uint32)
    draws = Draws(keys, np.array([1.0, 0.0, 0.3, 2.0], np.float32), 0.6)
    ours, torchs = logits.clone(), logits.clone()
    native(torch.float32, threads=2).couple(ours[:, :outputs], token_ids, draws)
    TorchLinearOps(EPS).couple(torchs[:, :outputs], token_ids, draws)
    torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=5e-3)  # 24 bits of noise against 32
    assert torch.equal(ours[1], logits[1])
    assert torch.equal(ours[:, outputs:], logits[:, outputs:])
    noise = gumbel(token_ids.numpy().astype(np.int64), NoiseKey(*keys[0].tolist()))
    expected = (logits[0, :outputs].double() + torch.from_numpy(noise)) / 0.6
    torch.testing.assert_close(torchs[0, :outputs].double(), expected, rtol=1e-6, atol=1e-5)
