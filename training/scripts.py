"""How a conversation comes about, as a script that asks the engine and goes on with what it says."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from serving.types import SamplingParams
from training.chat import Chat
from training.data import Conversation
from training.openers import Opening, Passage, draw

MIN_QUESTION_WORDS = 3
QUESTION_TOKENS, PASSAGE_TOKENS = 256, 640


class Ask(NamedTuple):
    prompt_ids: tuple[int, ...]
    params: SamplingParams


class Said(NamedTuple):
    """token_ids: the stop token included, if it came. ended: it did."""

    token_ids: tuple[int, ...]
    ended: bool


# Ends with the conversation, or with None when what the model wrote is of no use.
Script = Generator[Ask, Said, Conversation | None]


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes scripts; all of their chance comes from the `rng` they are given.

    temperatures: one is drawn for each answer.
    """

    chat: Chat
    eos_token_ids: frozenset[int]
    max_tokens: int
    temperatures: tuple[float, ...]
    varied: bool

    def answer(self, prompt_ids: tuple[int, ...], rng: random.Random) -> Script:
        """The target answers a prompt that is given."""
        temperature = rng.choice(self.temperatures)
        said = yield self._ask(prompt_ids, self.max_tokens, temperature, 1.0, rng)
        if not said.token_ids:
            return None
        return Conversation(
            np.array(prompt_ids + said.token_ids, np.int32), len(prompt_ids), float(temperature)
        )

    def invent(self, rng: random.Random) -> Script:
        """The target also writes the user's turn (the recipe of Magpie, arXiv 2406.08464)."""
        plan = draw(rng, self.varied)
        question = yield from self._passage(plan, rng) if isinstance(plan, Passage) else self._turn(plan, rng)
        if question is None:
            return None
        prompt_ids = self.chat.prompt([{"role": "user", "content": question}])
        return (yield from self.answer(prompt_ids, rng))

    def _turn(self, opening: Opening, rng: random.Random) -> Generator[Ask, Said, str | None]:
        """A user turn that the model finishes by itself."""
        said = yield self._ask(self.chat.open_user_turn(opening.start), QUESTION_TOKENS, 1.0, 0.97, rng)
        question = (opening.start + self.chat.text(said.token_ids)).strip()
        enough = len(question.split()) >= MIN_QUESTION_WORDS
        return question if said.ended and enough else None

    def _passage(self, plan: Passage, rng: random.Random) -> Generator[Ask, Said, str | None]:
        """A task about a passage that the model has written before."""
        request = self.chat.prompt([{"role": "user", "content": plan.request}])
        said = yield self._ask(request, PASSAGE_TOKENS, 0.9, 0.95, rng)
        passage = self.chat.text(said.token_ids).strip()
        return plan.task.replace("{passage}", passage) if passage else None

    def _ask(
        self, prompt_ids: tuple[int, ...], tokens: int, temperature: float, top_p: float, rng: random.Random
    ) -> Ask:
        params = SamplingParams(
            max_tokens=tokens,
            temperature=temperature,
            top_p=top_p if temperature else 1.0,
            seed=rng.getrandbits(64),
            stop_token_ids=self.eos_token_ids,
        )
        return Ask(prompt_ids, params)
