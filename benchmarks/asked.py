"""Questions as the model reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain, cycle, islice, zip_longest
from typing import NamedTuple

from benchmarks.answers import Prompt
from benchmarks.errors import BenchmarkError
from benchmarks.questions import Question
from serving.router.model import ServedModel

Message = Mapping[str, str]


class Asked(NamedTuple):
    """A turn of a question with what was said before, in the model's chat template. turn: from 1."""

    task: str
    question_id: int | str
    prompt: Prompt
    turn: int = 1


def ask(task: str, questions: Sequence[Question], model: ServedModel, max_tokens: int) -> list[Asked]:
    """First turns. Raises BenchmarkError naming a question that does not fit the context with its answer."""
    return [ask_turn(task, question, (), model, max_tokens) for question in questions]


def ask_turn(
    task: str, question: Question, answers: Sequence[str], model: ServedModel, max_tokens: int
) -> Asked:
    """The turn after those that have `answers`. Raises BenchmarkError as `ask` does."""
    messages: list[Message] = []
    for asked, answer in zip(question.turns, answers, strict=False):
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    messages.append({"role": "user", "content": question.turns[len(answers)]})
    prompt = asyncio.run(model.chat_prompt(messages))
    limit = model.card.max_model_len
    if len(prompt) + max_tokens > limit:
        raise BenchmarkError(
            f"{task}, question {question.question_id}: a prompt of {len(prompt)} tokens and {max_tokens} new "
            f"ones exceed the model's context of {limit}"
        )
    return Asked(task, question.question_id, prompt, len(answers) + 1)


def mixed(tasks: Mapping[str, Sequence[Asked]], size: int) -> list[Asked]:
    """`size` questions, a task after the other in turn; from the start again where there are too few."""
    turns = chain.from_iterable(zip_longest(*tasks.values()))
    return list(islice(cycle([asked for asked in turns if asked is not None]), size))
