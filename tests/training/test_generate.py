"""Writing text: scripts step by step, and whole runs of the command with a real engine."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tiny_tokenizers import EOS
from tokenizers import Tokenizer

from training import __main__ as program
from training import generate, scripts
from training.chat import Chat
from training.data import read_conversations
from training.openers import KINDS, Opening, Passage, draw
from training.scripts import Ask, Said, Writer

EVAL_STYLE = ["free", "instruction", "writing", "code", "fact", "reasoning", "math", "passage"]


@pytest.fixture
def chat(tiny_model: Path) -> Chat:
    return Chat(tiny_model)


@pytest.fixture
def tokenizer(tiny_model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny_model / "tokenizer.json"))


def writer(chat: Chat, varied: bool = False) -> Writer:
    return Writer(chat, frozenset({2}), 16, (0.0,), varied)


def says(tokenizer: Tokenizer, text: str, ended: bool = True) -> Said:
    return Said(tuple(tokenizer.encode(text + EOS if ended else text).ids), ended)


def shown(tokenizer: Tokenizer, ask: Ask) -> str:
    return tokenizer.decode(ask.prompt_ids, skip_special_tokens=False)


def test_model_writes_the_question_and_the_answer(chat: Chat, tokenizer: Tokenizer) -> None:
    script = writer(chat).invent(random.Random(0))
    first = next(script)
    assert shown(tokenizer, first) == "<|im_start|>user\n"
    assert first.params.temperature == 1.0
    second = script.send(says(tokenizer, " why is the dog lazy? "))
    expected = "<|im_start|>user\nwhy is the dog lazy?<|im_end|>\n<|im_start|>assistant\n"
    assert shown(tokenizer, second) == expected
    assert second.params.greedy
    with pytest.raises(StopIteration) as end:
        script.send(says(tokenizer, "it is."))
    text = end.value.value
    assert tokenizer.decode(text.token_ids, skip_special_tokens=False) == expected + "it is.<|im_end|>"
    assert text.prompt_len == len(second.prompt_ids)


def test_passage_is_written_first(chat: Chat, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Passage("Write about dogs.", "Summarise:\n\n{passage}")
    monkeypatch.setattr(scripts, "draw", lambda rng, varied: plan)
    script = writer(chat, varied=True).invent(random.Random(0))
    assert "user\nWrite about dogs.<|im_end|>" in shown(tokenizer, next(script))
    asked = script.send(says(tokenizer, "dogs bark {a lot", ended=False))
    assert "user\nSummarise:\n\ndogs bark {a lot<|im_end|>" in shown(tokenizer, asked)


@pytest.mark.parametrize(("question", "ended"), [("too short", True), ("this never comes to an end", False)])
def test_useless_questions_are_given_up(chat: Chat, tokenizer: Tokenizer, question: str, ended: bool) -> None:
    script = writer(chat).invent(random.Random(0))
    next(script)
    with pytest.raises(StopIteration) as end:
        script.send(says(tokenizer, question, ended))
    assert end.value.value is None


def test_openings_are_of_every_kind() -> None:
    drawn = [draw(random.Random(seed), varied=True) for seed in range(400)]
    kinds = {plan.kind if isinstance(plan, Opening) else "passage" for plan in drawn}
    assert kinds == set(KINDS) == set(EVAL_STYLE)
    assert len(set(drawn)) > 100
    assert draw(random.Random(0), varied=False) == Opening("free", "")


def run(monkeypatch: pytest.MonkeyPatch, model: Path, out: Path, *more: str) -> int:
    words = ["generate", "--model", str(model), "--out", str(out), "--threads", "1", "--max-tokens", "12"]
    words += ["--target-dtype", "float32", "--max-model-len", "256", *more]
    monkeypatch.setattr("sys.argv", ["training", *words])
    return program.main()


def test_answers_to_a_file_do_not_depend_on_interruption(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"question number {i}\n" for i in range(6)))
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    words = ["--prompts", str(prompts), "--temperatures", "0", "1", "--concurrency", "4"]
    assert run(monkeypatch, tiny_model, whole, *words) == 0
    lines = whole.read_text().splitlines(keepends=True)
    assert len(lines) == 6
    # As if killed while the third line was being written.
    cut.write_text("".join(lines[:2]) + lines[2][:20])
    assert run(monkeypatch, tiny_model, cut, *words) == 0
    assert sorted(cut.read_text().splitlines()) == sorted(whole.read_text().splitlines())
    assert {c.temperature for c in read_conversations([whole], 500)} == {0.0, 1.0}


def test_chat_and_sharegpt_prompts(
    tmp_path: Path, tiny_model: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, share = tmp_path / "chat.jsonl", tmp_path / "share.json"
    turns = [("system", "be brief"), ("user", "hi"), ("assistant", "hello"), ("user", "bye")]
    messages = [{"role": role, "content": text} for role, text in turns]
    chat.write_text(json.dumps({"messages": messages}) + "\n")
    values = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "left out"}]
    share.write_text(json.dumps([{"id": "a", "conversations": values}]))
    out = tmp_path / "out.jsonl"
    assert run(monkeypatch, tiny_model, out, "--prompts", str(chat), str(share)) == 0
    written = {
        tokenizer.decode(c.token_ids[: c.prompt_len], skip_special_tokens=False)
        for c in read_conversations([out], 500)
    }
    assert written == {
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\nhello<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    }


def test_bad_prompts_and_files_are_named(
    tmp_path: Path,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompts, out = tmp_path / "chat.jsonl", tmp_path / "out.jsonl"
    prompts.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n{"messages": [{"role": "bot"}]}\n')
    assert run(monkeypatch, tiny_model, out, "--prompts", str(prompts)) == 1
    assert f"{prompts}:2: a turn must have" in capsys.readouterr().err
    assert run(monkeypatch, tiny_model, out, "--prompts", str(prompts), "--skip-broken") == 0
    assert len(out.read_text().splitlines()) == 1
    out.write_text("something else\n")
    assert run(monkeypatch, tiny_model, out, "--prompts", str(prompts), "--skip-broken") == 1
    assert "not a file that `generate` wrote" in capsys.readouterr().err
    assert out.read_text() == "something else\n"


def test_model_that_never_ends_a_question_is_told(
    tmp_path: Path,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(scripts, "QUESTION_TOKENS", 3)
    monkeypatch.setattr(generate, "GIVE_UP_AFTER", 5)
    assert run(monkeypatch, tiny_model, tmp_path / "out.jsonl", "--count", "3") == 1
    assert "5 attempts in a row came to nothing" in capsys.readouterr().err
