"""The margin that the engine's own network sees, against transformers'."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import config_for, save_tiny, tiny_model
from transformers import PreTrainedModel

from benchmarks.in_process import InProcess
from benchmarks.margins import MarginProbe
from serving.spec.noise import gumbel, noise_key


@pytest.fixture(scope="module")
def network() -> PreTrainedModel:
    return tiny_model()


@pytest.fixture(scope="module")
def system(network: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    folder = save_tiny(tmp_path_factory.mktemp("model"), network)
    return InProcess(config_for(folder, max_num_batched_tokens=16, max_num_seqs=4), max_tokens=24)


@pytest.mark.parametrize("length", [1, 15, 16, 50])  # in up to four chunks
def test_margin(network: PreTrainedModel, system: InProcess, length: int) -> None:
    prefix = tuple((7 * i + 3) % 100 for i in range(length))
    with torch.no_grad():
        best, second = network(torch.tensor([prefix])).logits[0, -1].topk(2).values.tolist()
    assert MarginProbe(system.engine).margin(prefix) == pytest.approx(best - second, abs=1e-4)
    system.engine.check_integrity()


def test_the_margin_of_a_draw_is_that_of_logits_and_noise(
    network: PreTrainedModel, system: InProcess
) -> None:
    """The noise is that of the engine's own draw: its token is the best."""
    prompt, temperature, seed = (1, 2, 3, 4), 0.8, 11
    sampling = {"temperature": temperature, "seed": seed, "max_tokens": 1}
    (answer,) = system.run([prompt], 0, sampling).answers
    with torch.no_grad():
        logits = network(torch.tensor([prompt])).logits[0, -1].double().numpy()
    scores = logits / temperature + gumbel(np.arange(len(logits)), noise_key(seed, 0, len(prompt)))
    assert answer.token_ids == (scores.argmax(),)
    second, best = np.sort(scores)[-2:]
    assert best - second > 1e-3, "the draw was a near miss: choose another seed"
    margin = MarginProbe(system.engine).margin(prompt, temperature, seed)
    assert margin == pytest.approx(best - second, abs=1e-4)


def test_plain_answers_follow_the_best_token(network: PreTrainedModel, system: InProcess) -> None:
    """The probe leaves no trace in the cache that a later answer would read."""
    MarginProbe(system.engine).margin(tuple(range(50)))
    prompt = (1, 2, 3, 4)
    (answer,) = system.run([prompt], 0).answers
    assert answer.token_ids is not None
    with torch.no_grad():
        choices = network(torch.tensor([prompt + answer.token_ids])).logits[0].argmax(-1).tolist()
    assert list(answer.token_ids) == choices[len(prompt) - 1 : -1]
