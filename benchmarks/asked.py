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


class Asked(NamedTuple):
    """The first turn of a question, in the model's chat template."""

    task: str
    question_id: int | str
    prompt: Prompt


def ask(task: str, questions: Sequence[Question], model: ServedModel, max_tokens: int) -> list[Asked]:
    """Raises BenchmarkError naming a question that does not fit the context with its answer."""
    return [
        Asked(task, question.question_id, _prompt(task, question, model, max_tokens))
        for question in questions
    ]


def mixed(tasks: Mapping[str, Sequence[Asked]], size: int) -> list[Asked]:
    """`size` questions, a task after the other in turn; from the start again where there are too few."""
    turns = chain.from_iterable(zip_longest(*tasks.values()))
    return list(islice(cycle([asked for asked in turns if asked is not None]), size))


def _prompt(task: str, question: Question, model: ServedModel, max_tokens: int) -> Prompt:
    prompt = asyncio.run(model.chat_prompt([{"role": "user", "content": question.turns[0]}]))
    limit = model.card.max_model_len
    if len(prompt) + max_tokens > limit:
        raise BenchmarkError(
            f"{task}, question {question.question_id}: a prompt of {len(prompt)} tokens and {max_tokens} new "
            f"ones exceed the model's context of {limit}"
        )
    return prompt
