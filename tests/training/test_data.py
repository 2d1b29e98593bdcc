"""Data files: what is read, what is refused and where it says so, who is held out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from texts import conversation

from training.data import Conversation, limited, read_conversations, split
from training.errors import DataError

GOOD = '{"token_ids": [1, 2, 3], "prompt_len": 2, "temperature": 0.7}'
BROKEN = {
    "not json": "not JSON",
    "[1, 2]": "not a JSON object",
    '{"token_ids": [1, "2"], "prompt_len": 1}': "token_ids must be a list",
    '{"token_ids": [1, true], "prompt_len": 1}': "token_ids must be a list",
    '{"token_ids": [1, 100], "prompt_len": 1}': "from 0 to 99",
    '{"token_ids": [1, -1], "prompt_len": 1}': "from 0 to 99",
    '{"token_ids": [1, 2], "prompt_len": 2}': "prompt_len must be from 1 to 1",
    '{"token_ids": [1, 2]}': "prompt_len must be from 1 to 1",
    '{"token_ids": [1, 2], "prompt_len": 1, "temperature": "hot"}': "temperature",
    '{"token_ids": [1, 2], "prompt_len": 1, "temperature": NaN}': "temperature",
}


def read(path: Path, **options: bool) -> list[Conversation]:
    return read_conversations([path], vocab_size=100, **options)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl.gz"
    texts = [conversation(seed, temperature=seed / 2) for seed in range(3)]
    with gzip.open(path, "wt") as file:
        file.writelines(text.to_json() + "\n\n" for text in texts)
    assert [text.to_json() for text in read(path)] == [text.to_json() for text in texts]


@pytest.mark.parametrize(("line", "problem"), BROKEN.items())
def test_broken_line_is_named_and_skipped_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, problem: str
) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    with pytest.raises(DataError, match=problem) as raised:
        read(path)
    assert f"{path}:2: " in str(raised.value)
    assert len(read(path, skip_broken=True)) == 2
    assert f"{path}:2: " in capsys.readouterr().out


def test_truncated_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl.gz"
    lines = "".join(conversation(seed).to_json() + "\n" for seed in range(500))
    path.write_bytes(gzip.compress(lines.encode())[:-2000])
    with pytest.raises(DataError, match="damaged from here on"):
        read(path)
    assert 0 < len(read(path, skip_broken=True)) < 500


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*No such file"):
        read(tmp_path / "none.jsonl")


def test_split_depends_on_the_prompt_alone() -> None:
    texts = [conversation(seed) for seed in range(400)]
    answered_again = [
        Conversation(text.token_ids[:-3], text.prompt_len, temperature=1.0) for text in reversed(texts)
    ]
    first, second = split(texts, 0.25, seed=1), split(answered_again, 0.25, seed=1)

    def prompts(part: list[Conversation]) -> set[bytes]:
        return {text.token_ids[: text.prompt_len].tobytes() for text in part}

    assert prompts(first.held_out) == prompts(second.held_out)
    assert not prompts(first.held_out) & prompts(first.train)
    assert 70 < len(first.held_out) < 130
    assert prompts(first.held_out) != prompts(split(texts, 0.25, seed=2).held_out)


def test_less_text_is_a_part_of_more_and_about_as_much_as_asked_for() -> None:
    texts = [conversation(seed, response=5 + seed % 20) for seed in range(200)]
    less, more = limited(texts, 300), limited(list(reversed(texts)), 1200)
    assert {text.digest for text in less} < {text.digest for text in more}
    for part, asked in ((less, 300), (more, 1200)):
        assert asked <= sum(text.num_response for text in part) < asked + 25
    assert less == [text for text in texts if text in less]  # in their order
    assert limited(texts, None) == texts
    assert limited(texts, 10**6) == texts
