"""The engine as a system under test: what its clock and counters say."""

from __future__ import annotations

import pytest
from tiny_models import config_for, save_tiny, tiny_model

from benchmarks.answers import Wave
from benchmarks.errors import BenchmarkError
from benchmarks.in_process import InProcess

PROMPTS = [(5, 6, 7) * n for n in (2, 5, 9)]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    config = config_for(save_tiny(tmp_path_factory.mktemp("model"), tiny_model()))
    # By default a tiny model's tokens are found not to be worth a draft.
    speculation = config.speculation.model_copy(update={"num_speculative_tokens": 5})
    return InProcess(config.model_copy(update={"speculation": speculation}), max_tokens=32)


def tokens(wave: Wave) -> list[tuple[int, ...] | None]:
    return [answer.token_ids for answer in wave.answers]


def test_speculation_and_company_change_no_token(system: InProcess) -> None:
    together = system.run(PROMPTS, 0)
    assert tokens(system.run(PROMPTS, None)) == tokens(together)
    assert [system.run([prompt], 0).answers[0].token_ids for prompt in PROMPTS] == tokens(together)


def test_times_and_counts(system: InProcess) -> None:
    wave = system.run(PROMPTS, 0)
    for answer in wave.answers:
        assert answer.num_tokens == 32
        assert 0 < answer.first_s < answer.last_s <= wave.seconds
        assert answer.stats is not None
        assert (answer.stats.steps, answer.stats.committed_tokens) == (31, 31)  # the first came with prefill
    assert wave.window is not None
    assert wave.window.steps == 31
    assert wave.window.committed_tokens == 3 * 31
    assert 0 < sum(wave.window.times.values()) <= wave.window.seconds


def test_drafts_are_counted(system: InProcess) -> None:
    stats = [answer.stats for answer in system.run(PROMPTS, None).answers]
    assert all(s is not None and s.draft_tokens > 0 for s in stats)


def test_a_prompt_without_room_is_an_error(system: InProcess) -> None:
    with pytest.raises(BenchmarkError, match="leave no room"):
        system.run([(1,) * 300], 0)
