"""Linear layers with what surrounds them, behind one protocol: plain torch, or packed for the CPU kernels.

The decoder is written in these operations, so that it reads the same on every device while a CPU gets few,
large ones (per-operation overhead is half of a small model's step there).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from serving.kernels.native import LANES, Epilogue, Kernels
from serving.spec.noise import NoiseKey, noise_bits


@dataclass(frozen=True, slots=True)
class Linear:
    """weight: [out, in], or packed as its LinearOps wants it; bias: [out] or None."""

    weight: Tensor
    bias: Tensor | None
    in_features: int
    out_features: int


class Likeliest(NamedTuple):
    """The largest logits of each row, falling: ids, int64, and log-softmax, float32, both [rows, count]."""

    ids: Tensor
    log_probs: Tensor


class Draws(NamedTuple):
    """What the target will draw with, a row each: noise keys, uint32 [rows, 2]; temperatures, float32 [rows].

    A temperature of 0 is greedy: there is no noise.
    spread: how far a head's log-probabilities are from the target's, as the scale of a Gumbel distribution.
    Given its noise g, the target then draws a token with the probability softmax((log q / T + g) / spread).
    """

    keys: NDArray[np.uint32]
    temperatures: NDArray[np.float32]
    spread: float


class LinearOps(Protocol):
    """x: [rows, in] in the model's dtype. norm is the weight [in] of an RMSNorm with `eps`; None: no norm."""

    eps: float

    def pack(self, weight: Tensor, bias: Tensor | None = None) -> Linear: ...

    def pack_gate_up(self, gate: Linear, up: Linear) -> Linear:
        """One layer of 2 x intermediate outputs from two plain ones."""
        ...

    def norm_linear(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        """layer(norm(x)): [rows, out]."""
        ...

    def norm_swiglu(self, x: Tensor, norm: Tensor, layer: Linear) -> Tensor:
        """silu(gate(norm(x))) * up(norm(x)): [rows, intermediate]."""
        ...

    def add_linear(self, residual: Tensor, x: Tensor, layer: Linear) -> None:
        """residual += layer(x), in place."""
        ...

    def partial(self, x: Tensor, layer: Linear) -> Tensor:
        """layer(x) as one addend of a sum: [rows, out], in float32 where that loses nothing to speed."""
        ...

    def norm_logits(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        """layer(norm(x)) as float32: [rows, out]. The result is valid until the next call."""
        ...

    def embed(self, token_ids: Tensor, layer: Linear) -> Tensor:
        """Rows of the layer's weight: [rows, in]."""
        ...

    def norms(self, parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Each (x, norm) normed by itself, side by side: [rows, sum of the widths]."""
        ...

    def likeliest(self, logits: Tensor, count: int) -> Likeliest:
        """Of `logits`, float32 [rows, n]. A row that has a NaN gives NaN."""
        ...

    def couple(self, logits: Tensor, token_ids: Tensor, draws: Draws) -> None:
        """Add the noise that the target will draw with, in place: logits of being drawn, given the noise.

        logits: float32 [rows, n]. token_ids: int32 [n], the target's.
        """
        ...


class TorchLinearOps:
    """Plain torch, any device and dtype."""

    def __init__(self, eps: float) -> None:
        self.eps = eps

    def pack(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return Linear(weight, bias, weight.shape[1], weight.shape[0])

    def pack_gate_up(self, gate: Linear, up: Linear) -> Linear:
        bias = None if gate.bias is None or up.bias is None else torch.cat((gate.bias, up.bias))
        return self.pack(torch.cat((gate.weight, up.weight)), bias)

    def norm_linear(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        normed = x if norm is None else F.rms_norm(x, norm.shape, norm, self.eps)
        return F.linear(normed, layer.weight, layer.bias)

    def norm_swiglu(self, x: Tensor, norm: Tensor, layer: Linear) -> Tensor:
        gate, up = self.norm_linear(x, norm, layer).chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    def add_linear(self, residual: Tensor, x: Tensor, layer: Linear) -> None:
        residual += F.linear(x, layer.weight, layer.bias)

    def partial(self, x: Tensor, layer: Linear) -> Tensor:
        return self.norm_linear(x, None, layer)

    def norm_logits(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        return self.norm_linear(x, norm, layer).float()

    def embed(self, token_ids: Tensor, layer: Linear) -> Tensor:
        return layer.weight[token_ids]

    def norms(self, parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        return torch.cat([F.rms_norm(x, norm.shape, norm, self.eps) for x, norm in parts], dim=-1)

    def likeliest(self, logits: Tensor, count: int) -> Likeliest:
        top = logits.topk(min(count, logits.shape[1]), dim=-1)
        return Likeliest(top.indices, top.values - logits.logsumexp(-1, keepdim=True))

    def couple(self, logits: Tensor, token_ids: Tensor, draws: Draws) -> None:
        for row, (first, second), temperature in zip(
            logits, draws.keys.tolist(), draws.temperatures.tolist(), strict=True
        ):
            if temperature:
                bits = noise_bits(token_ids.long(), NoiseKey(first, second))
                noise = -((bits.double() + 0.5) / 2**32).log_().neg_().log_()
                row.copy_((row / temperature + noise) / draws.spread)


TILE_ROWS = 16


class RowInvariantLinearOps(TorchLinearOps):
    """Plain torch, but every product has TILE_ROWS rows, the last of them padding.

    A library chooses how to sum by the shape of a product, so a row's result is then the same whatever the
    number of rows, as long as it is the same in every place of a tile.
    """

    def norm_linear(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        product, padding = super().norm_linear, -len(x) % TILE_ROWS
        tiles = torch.split(F.pad(x, (0, 0, 0, padding)), TILE_ROWS)
        return torch.cat([product(tile, norm, layer) for tile in tiles])[: len(x)]

    def norm_swiglu(self, x: Tensor, norm: Tensor, layer: Linear) -> Tensor:
        gate, up = self.norm_linear(x, norm, layer).chunk(2, dim=-1)
        # On a CPU a tensor is cut anywhere among the threads, and the last few elements of a part are rounded
        # otherwise than the others: a row by itself is always cut in the same places.
        return torch.cat([F.silu(row) for row in torch.split(gate, 1)]).mul_(up)

    def add_linear(self, residual: Tensor, x: Tensor, layer: Linear) -> None:
        residual += self.norm_linear(x, None, layer)


class NativeLinearOps:
    """The CPU kernels: weights in strips of 16 outputs, norm before and activation after in the same call.

    Each row's result is the same whatever the number of rows or threads.
    """

    def __init__(self, eps: float, kernels: Kernels, threads: int) -> None:
        self.eps, self.kernels, self.threads = eps, kernels, threads
        self._unit = 4 // kernels.dtype.itemsize  # bf16 goes in pairs
        self._logits = torch.empty(0, 0)

    def pack(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        outputs, inputs = weight.shape
        return Linear(self._strips(weight), self._bias_strips(bias, outputs), inputs, outputs)

    def pack_gate_up(self, gate: Linear, up: Linear) -> Linear:
        """Strips alternate, so that a gate and its up projection meet in one tile."""
        weight = torch.stack((gate.weight, up.weight), dim=1).flatten(0, 1)
        bias = None
        if gate.bias is not None and up.bias is not None:
            bias = torch.stack((gate.bias.view(-1, LANES), up.bias.view(-1, LANES)), dim=1).flatten()
        assert gate.out_features % LANES == 0
        return Linear(weight, bias, gate.in_features, 2 * gate.out_features)

    def norm_linear(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        return self._run(layer, x, norm, self._rows_of(layer, x), Epilogue.STORE)

    def norm_swiglu(self, x: Tensor, norm: Tensor, layer: Linear) -> Tensor:
        out = torch.empty(x.shape[0], layer.out_features // 2, dtype=x.dtype)
        return self._run(layer, x, norm, out, Epilogue.SILU_MUL)

    def add_linear(self, residual: Tensor, x: Tensor, layer: Linear) -> None:
        assert residual.shape[1] % LANES == 0
        self._run(layer, x, None, residual, Epilogue.ADD_TO_OUTPUT)

    def partial(self, x: Tensor, layer: Linear) -> Tensor:
        assert layer.out_features % LANES == 0
        out = torch.empty(x.shape[0], layer.out_features)
        return self._run(layer, x, None, out, Epilogue.STORE_FLOAT32)

    def norm_logits(self, x: Tensor, norm: Tensor | None, layer: Linear) -> Tensor:
        # Fresh megabytes cost page faults on every step: keep the largest buffer so far.
        width = _padded(layer.out_features)
        if self._logits.shape[0] < x.shape[0] or self._logits.shape[1] != width:
            self._logits = torch.empty(x.shape[0], width)
        out = self._run(layer, x, norm, self._logits[: x.shape[0]], Epilogue.STORE_FLOAT32)
        return out[:, : layer.out_features]

    def embed(self, token_ids: Tensor, layer: Linear) -> Tensor:
        rows = layer.weight[token_ids // LANES, :, token_ids % LANES]  # [rows, in / unit, unit]
        return rows.flatten(1)

    def norms(self, parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        rows, dtype, width = len(parts[0][0]), self.kernels.dtype, sum(x.shape[1] for x, _ in parts)
        out, start = torch.empty(rows, width, dtype=dtype), 0
        for x, norm in parts:
            assert x.dtype == norm.dtype == dtype
            assert x.stride(1) == 1
            at, size = out.data_ptr() + start * dtype.itemsize, x.shape[1]
            self.kernels.norm_rows(
                at, x.data_ptr(), norm.data_ptr(), self.eps, rows, size, width, x.stride(0)
            )
            start += size
        return out

    def likeliest(self, logits: Tensor, count: int) -> Likeliest:
        assert logits.dtype == torch.float32
        assert logits.stride(1) == 1
        rows, outputs = logits.shape
        count = min(count, outputs)
        ids, log_probs = torch.empty(rows, count, dtype=torch.int64), torch.empty(rows, count)
        self.kernels.likeliest(
            logits.data_ptr(),
            rows,
            outputs,
            logits.stride(0),
            count,
            ids.data_ptr(),
            log_probs.data_ptr(),
            self.threads,
        )
        return Likeliest(ids, log_probs)

    def couple(self, logits: Tensor, token_ids: Tensor, draws: Draws) -> None:
        rows, outputs = logits.shape
        assert token_ids.dtype == torch.int32
        assert len(token_ids) == outputs
        assert draws.keys.shape == (rows, 2)
        assert draws.keys.dtype == np.uint32
        assert draws.temperatures.dtype == np.float32
        self.kernels.couple(
            logits.data_ptr(),
            rows,
            outputs,
            logits.stride(0),
            token_ids.data_ptr(),
            draws.keys.ctypes.data,
            draws.temperatures.ctypes.data,
            draws.spread,
            self.threads,
        )

    def _strips(self, weight: Tensor) -> Tensor:
        """[out, in] -> [out / 16, in / unit, 16, unit], the last strip padded with zeros."""
        outputs, inputs = weight.shape
        assert inputs % LANES == 0, "the kernels' rows are whole vectors"
        padded = F.pad(weight.to(self.kernels.dtype), (0, 0, 0, _padded(outputs) - outputs))
        return padded.view(-1, LANES, inputs // self._unit, self._unit).transpose(1, 2).contiguous()

    def _bias_strips(self, bias: Tensor | None, outputs: int) -> Tensor | None:
        return None if bias is None else F.pad(bias.float(), (0, _padded(outputs) - outputs)).contiguous()

    def _rows_of(self, layer: Linear, x: Tensor) -> Tensor:
        assert layer.out_features % LANES == 0
        return torch.empty(x.shape[0], layer.out_features, dtype=x.dtype)

    def _run(self, layer: Linear, x: Tensor, norm: Tensor | None, out: Tensor, epilogue: Epilogue) -> Tensor:
        assert x.is_contiguous()
        normed = torch.empty_like(x) if norm is not None else None
        self.kernels.linear(
            out.data_ptr(),
            x.data_ptr(),
            None if norm is None else norm.data_ptr(),
            None if normed is None else normed.data_ptr(),
            self.eps,
            layer.weight.data_ptr(),
            None if layer.bias is None else layer.bias.data_ptr(),
            x.shape[0],
            layer.weight.shape[0] * LANES,
            layer.in_features,
            out.shape[1],
            epilogue,
            self.threads,
        )
        return out


def _padded(outputs: int) -> int:
    return -(-outputs // LANES) * LANES
