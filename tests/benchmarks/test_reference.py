"""transformers as the yardstick: greedy, nothing of its own added, every token counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_models import save_tiny, tiny_model

from benchmarks.reference_process import Generator

PROMPT = [5, 6, 7, 8]


@pytest.mark.parametrize("penalty", [1.0, 5.0])
def test_the_model_s_own_defaults_do_not_count(tmp_path: Path, penalty: float) -> None:
    network = tiny_model()
    network.generation_config.repetition_penalty = penalty
    network.generation_config.do_sample = True
    made = Generator(str(save_tiny(tmp_path, network)), "float32", 1, []).run([PROMPT], 20)
    (answer,) = made["token_ids"]
    assert len(answer) == 20
    assert 0 < made["first_s"] < made["last_s"]
    with torch.no_grad():
        choices = network(torch.tensor([PROMPT + answer])).logits[0].argmax(-1).tolist()
    assert answer == choices[len(PROMPT) - 1 : -1]


def test_the_end_of_sequence_ends_it(tmp_path: Path) -> None:
    folder = str(save_tiny(tmp_path, tiny_model()))
    (whole,) = Generator(folder, "float32", 1, []).run([PROMPT], 20)["token_ids"]
    stop = whole[10]
    (cut,) = Generator(folder, "float32", 1, [stop]).run([PROMPT], 20)["token_ids"]
    assert cut == whole[: whole.index(stop) + 1]


def test_a_padded_batch_and_drafts_change_no_token(tmp_path: Path) -> None:
    folder, assistant = (str(save_tiny(tmp_path / n, tiny_model(seed))) for seed, n in enumerate("ab"))
    generator = Generator(folder, "float32", 1, [], assistant)
    prompts = [PROMPT, [9, 10, 9, 10, 9, 10, 9], [3]]
    alone = [generator.run([prompt], 20)["token_ids"][0] for prompt in prompts]
    assert generator.run(prompts, 20)["token_ids"] == alone
    for draft_tokens in (3, None):
        assert generator.run(prompts[:1], 20, draft_tokens)["token_ids"] == alone[:1]
