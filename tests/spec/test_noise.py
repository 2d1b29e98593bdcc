import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from serving.spec import noise
from serving.spec.noise import GUMBEL_MAX, GUMBEL_MIN, gumbel, noise_bits, noise_key

IDS = np.arange(49152)


def bits(seed: int, choice_index: int = 0, position: int = 0, ids=IDS):
    return noise_bits(ids, noise_key(seed, choice_index, position))


@pytest.mark.parametrize(
    ("seed", "choice_index", "position", "key", "expected"),
    [
        (0, 0, 0, (595752380, 956087953), [3742547997, 3133928257, 1691383973, 1865013141]),
        (1, 0, 0, (2978611956, 1837991619), [3423409810, 4198644754, 2292834713, 1238872847]),
        (0, 1, 0, (1155905921, 13008816), [490294917, 3390874755, 1880544608, 1547149307]),
        (0, 0, 1, (791848836, 2529590368), [3962111222, 4148443203, 3011888340, 448137617]),
        (2**64 - 1, 15, 8191, (1277074977, 2799483903), [266444964, 1611565073, 571432262, 937917746]),
    ],
)
def test_golden_values(seed, choice_index, position, key, expected):
    """Changing these breaks the promise that a seed means the same output on every replica and version."""
    assert noise_key(seed, choice_index, position) == key
    assert bits(seed, choice_index, position, np.array([0, 1, 2, 49151])).tolist() == expected


def test_golden_gumbel():
    first, last = gumbel(np.array([0, 49151]), noise_key(0, 0, 0)).tolist()
    assert first == pytest.approx(1.9828428922427197, rel=1e-12)
    assert last == pytest.approx(0.181311057695957, rel=1e-12)


def test_extreme_hashes_give_finite_noise_within_the_bounds(monkeypatch):
    """S9: the top hashes would round to a uniform of 1.0 in float32."""
    extremes = np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1])
    monkeypatch.setattr(noise, "noise_bits", lambda ids, key: extremes[ids])
    values = gumbel(np.arange(5), noise_key(0, 0, 0))
    assert np.isfinite(values).all()
    assert (np.diff(values) > 0).all()
    assert values[[0, -1]].tolist() == pytest.approx([GUMBEL_MIN, GUMBEL_MAX], rel=1e-12)


def test_torch_and_numpy_hash_alike():
    key = noise_key(2**63 + 5, 3, 700)
    assert noise_bits(torch.arange(5000), key).tolist() == noise_bits(np.arange(5000), key).tolist()


def test_hash_covers_32_bits():
    values = bits(9)
    assert values.min() >= 0
    assert values.max() < 2**32
    assert (values >> 28 == 0xF).any()
    assert (values >> 28 == 0).any()


def test_noise_of_a_token_does_not_depend_on_the_others():
    key = noise_key(3, 0, 11)
    alone = [gumbel(IDS[i : i + 1], key)[0] for i in range(0, 200, 7)]
    assert gumbel(IDS, key)[:200:7].tolist() == alone
    assert gumbel(IDS[:200:7], key).tolist() == alone


def test_arguments_are_left_alone():
    ids = np.arange(10)
    noise_bits(ids, noise_key(1, 2, 3))
    assert ids.tolist() == list(range(10))


SETS = {
    "tokens": lambda: bits(1),
    "positions": lambda: np.array([bits(1, 0, p, IDS[5:6])[0] for p in range(20000)]),
    "choices": lambda: np.array([bits(1, c, 7, IDS[5:6])[0] for c in range(20000)]),
    "seeds": lambda: np.array([bits(s, 0, 7, IDS[5:6])[0] for s in range(20000)]),
    "tokens of consecutive positions": lambda: np.concatenate([bits(1, 0, p, IDS[:100]) for p in range(200)]),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("shift", [0, 12, 24])
def test_uniform(name, shift):
    counts = np.bincount(SETS[name]() >> shift & 0xFF, minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


PAIRS = {
    "next position": (bits(4, 0, 50), bits(4, 0, 51)),
    "next choice": (bits(4, 0, 50), bits(4, 1, 50)),
    "next seed": (bits(4, 0, 50), bits(5, 0, 50)),
    "far seed bit": (bits(4, 0, 50), bits(4 + 2**63, 0, 50)),
    "next token": (bits(4, 0, 50)[:-1], bits(4, 0, 50)[1:]),
    "choice and position swapped": (bits(4, 3, 50), bits(4, 50, 3)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_independent(name):
    """Top four bits of both: a 16 x 16 table with the product of its margins."""
    one, other = PAIRS[name]
    table = np.bincount((one >> 28) * 16 + (other >> 28), minlength=256).reshape(16, 16)
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_distribution_is_gumbel():
    values = gumbel(IDS, noise_key(77, 0, 1))
    assert stats.kstest(values, stats.gumbel_r.cdf).pvalue > 1e-4


def test_a_numpy_process_stays_without_torch():
    code = "import sys, serving.spec.noise, serving.spec.tree; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
