"""How self-written user turns begin, so that they vary as users do. Written for this purpose; no data set."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

INSTRUCTIONS = (
    "Give me a list of", "Explain the difference between", "Describe how", "Explain why",
    "What are the benefits of", "Write a short paragraph about", "Suggest some", "Classify the following",
    "Name a few", "Give an example of", "Compare", "Rewrite this sentence so that it",
    "Correct the mistakes in this sentence:", "Translate into French:", "Translate into Spanish:",
    "Translate the following sentence into German:", "Come up with", "Outline the steps",
    "Provide advice on", "Create a plan for", "Define the term", "Turn this into a question:",
    "Find a synonym for", "Put these words in order:", "Identify the main idea of this sentence:",
    "Make a table of", "Edit this text:", "Summarise in one sentence why", "Generate a title for",
    "How would you", "What should I do if", "Tell me about",
)  # fmt: skip
WRITING = (
    "Write a short story about", "Write a poem about", "Write an email to", "Compose a letter to",
    "Write a blog post", "Write a product description for", "Imagine that you are", "Pretend to be",
    "Act as", "You are a teacher who", "Draft a speech for", "Write a dialogue between",
    "Describe a scene in which", "Write a review of", "Write an advertisement for", "Continue this story:",
    "Write an essay on", "Invent a recipe with",
)  # fmt: skip
CODE = (
    "Write a Python function that", "Implement a Python function to",
    "Complete this Python function:\n\ndef ",
    "Finish the following code.\n\nfrom typing import List\n\n\ndef ", "Write a program that",
    "Write a SQL query that", "Fix the bug in this code:\n\n", "What does this code do?\n\n```python\n",
    "Write a JavaScript function", "Write a class in Python that", "How do I in Python",
    "Write a regular expression that", "Write unit tests for", 'def solve(numbers):\n    """',
    "Write a recursive function that", "Write C code to", "Explain this algorithm:",
)  # fmt: skip
FACTS = (
    "who was the first", "when did", "where is the", "what is the capital of", "how many", "who wrote",
    "who sings", "what year was", "where did the", "who plays", "what is the largest", "when was the",
    "what does", "which country", "how long does it take", "what is the meaning of", "Who invented",
    "When was", "Where was", "What is the name of", "Why is", "how old is", "what kind of", "who won the",
    "what are the", "who is the author of", "where do",
)  # fmt: skip
REASONING = (
    "Is it true that", "Which of these is", "If all", "Suppose that", "Solve for x:",
    "What comes next in the sequence", "Calculate", "Prove that", "Find the area of",
    "What is the probability that", "What happens when",
)  # fmt: skip
NAMES = (
    "Anna", "Ben", "Carla", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jack", "Kira", "Leo",
    "Maya", "Noah", "Olga", "Pablo", "Quinn", "Rosa", "Sam", "Tara", "Umar", "Vera", "Will", "Yuki",
    "A farmer", "A school", "A baker",
)  # fmt: skip
PROBLEMS = (
    "{name} has {n}", "{name} buys {n}", "{name} reads {n} pages", "{name} earns ${n}",
    "{name} drives {n} miles", "{name} is {n} years old", "{name} bakes {n}", "{name} works {n} hours",
    "There are {n} students", "{name} sold {n}", "{name} spends {n} minutes", "A box holds {n}",
    "{name} saved ${n}", "{name} planted {n}", "A train travels {n}",
)  # fmt: skip
TOPICS = (
    "a flood in a small town", "a new railway line", "an election in a coastal city",
    "a lost dog that came home", "the opening of a museum", "a strike of bus drivers", "a football final",
    "a volcano that woke up", "a hospital", "a court case about a stolen painting", "the price of bread",
    "a school that teaches outdoors", "a rare bird", "the history of tea", "how bridges are built",
    "the moons of Jupiter", "coral reefs", "the invention of printing", "an expedition to the Arctic",
    "a chess champion", "a power cut", "honey bees", "the first aeroplanes", "a storm", "a film festival",
    "a company that makes shoes", "a scientist who studies sleep", "a marathon", "a forest fire",
    "a young violinist", "the life of a lighthouse keeper", "electric cars", "a border dispute",
    "ancient Rome", "a medicine for malaria", "the Silk Road", "a famous trial", "glaciers",
    "a bank robbery", "a village market", "a tennis player who returned after an injury",
    "space telescopes", "the desert at night", "a ferry accident", "a mayor who resigned",
    "the human heart", "a charity that plants trees", "an earthquake", "online privacy",
    "a zoo that saved a species", "the making of glass", "a writer who won a prize", "a dam", "vaccines",
    "a bakery", "a missing hiker", "the invention of the telephone", "urban gardens", "a royal wedding",
    "an oil spill", "wolves",
)  # fmt: skip
FORMS = (
    "Write a long news article about {topic}.", "Write a detailed encyclopedia entry about {topic}.",
    "Write a long newspaper report about {topic}, with quotes from people involved.",
    "Write several paragraphs about {topic}.", "Write a magazine feature about {topic}.",
)  # fmt: skip
# What is asked about a passage; {passage} is one that the model has written.
TASKS = (
    "Summarize the following article:\n\n{passage}", "{passage}\n\nSummarize this article.",
    "Summarize this text in three sentences.\n\n{passage}",
    "Give a short summary of this article.\n\n{passage}", "{passage}\n\nTL;DR",
    "What are the main points of this article?\n\n{passage}",
    "Read the text and answer: what happened, and to whom?\n\n{passage}",
    "{passage}\n\nRewrite this text more simply.", "Write a headline for this article:\n\n{passage}",
    "Extract all names and places from this text.\n\n{passage}",
    "Write three questions about the following text.\n\n{passage}", "Shorten this text:\n\n{passage}",
)  # fmt: skip


class Opening(NamedTuple):
    """start: the first words of the user's turn, written for the model; it goes on from there."""

    kind: str
    start: str


class Passage(NamedTuple):
    """request: asks the model for a passage. task: what the user then asks, with `{passage}` in it."""

    request: str
    task: str


@dataclass(frozen=True, slots=True)
class Kind:
    """weight: share of conversations, relative to the others'."""

    weight: float
    draw: Callable[[random.Random], Opening | Passage]


def _one_of(kind: str, starts: tuple[str, ...]) -> Callable[[random.Random], Opening]:
    return lambda rng: Opening(kind, rng.choice(starts))


def _problem(rng: random.Random) -> Opening:
    number = rng.choice((rng.randint(2, 12), rng.randint(10, 60), 5 * rng.randint(4, 60)))
    return Opening("math", rng.choice(PROBLEMS).format(name=rng.choice(NAMES), n=number))


def _passage(rng: random.Random) -> Passage:
    return Passage(rng.choice(FORMS).format(topic=rng.choice(TOPICS)), rng.choice(TASKS))


KINDS = {
    "free": Kind(0.22, lambda rng: Opening("free", "")),
    "instruction": Kind(0.18, _one_of("instruction", INSTRUCTIONS)),
    "writing": Kind(0.10, _one_of("writing", WRITING)),
    "code": Kind(0.14, _one_of("code", CODE)),
    "fact": Kind(0.10, _one_of("fact", FACTS)),
    "reasoning": Kind(0.04, _one_of("reasoning", REASONING)),
    "math": Kind(0.10, _problem),
    "passage": Kind(0.12, _passage),
}


def draw(rng: random.Random, varied: bool) -> Opening | Passage:
    """A user turn to be. Not `varied`: the model writes all of it."""
    if not varied:
        return Opening("free", "")
    kind = rng.choices(list(KINDS), [kind.weight for kind in KINDS.values()])[0]
    return KINDS[kind].draw(rng)
