"""`generate`: text to train on, written by the target through our own engine."""

from __future__ import annotations

import json
import os
import random
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from tqdm import tqdm

from serving.engine.build import build_engine
from training.chat import Chat
from training.data import Conversation
from training.errors import TrainingError
from training.options import add_target, positive, serve_config
from training.prompts import read_prompts
from training.run_scripts import Numbered, Outcome, run_scripts
from training.scripts import Script, Writer
from training.target import TargetFolder

GIVE_UP_AFTER = 200  # scripts in a row that come to nothing


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, help="JSONL; what it already holds is kept and counted")
    add("--prompts", type=Path, nargs="+", metavar="FILE", help="text, chat JSONL or ShareGPT JSON")
    add("--skip-broken", action="store_true", help="leave broken prompts out")
    add("--count", type=positive, default=1000, help="conversations, without --prompts")
    add("--varied", action="store_true", help="begin self-written user turns in many ways")
    add("--max-tokens", type=positive, default=384, help="of an answer")
    add("--temperatures", type=float, nargs="+", default=[0.0, 0.0, 0.0, 0.7, 1.0], help="one per answer")
    add("--concurrency", type=positive, default=32)
    add("--max-model-len", type=positive, default=2048)
    add("--seed", type=int, default=0)
    add_target(parser)


def run(options: Namespace) -> None:
    folder = TargetFolder.open(serve_config(options))
    writer = Writer(
        Chat(folder.folder),
        frozenset(folder.architecture.eos_token_ids),
        options.max_tokens,
        tuple(options.temperatures),
        options.varied,
    )
    done = recover(options.out)
    numbered: Iterator[tuple[int, Script]]
    if options.prompts:
        messages = read_prompts(options.prompts, skip_broken=options.skip_broken)
        scripts = [
            writer.answer(writer.chat.prompt(m), _rng(options.seed, i)) for i, m in enumerate(messages)
        ]
        total, numbered = len(scripts), enumerate(scripts)
    else:
        total, numbered = options.count, ((i, writer.invent(_rng(options.seed, i))) for i in count())
    if len(done) >= total:
        print(f"{options.out} is complete")
        return
    context = min(options.max_model_len, folder.architecture.max_position_embeddings)
    config = serve_config(options, max_num_seqs=options.concurrency, max_model_len=context)
    engine = build_engine(config, None, "generate")
    remaining = (Numbered(i, script) for i, script in numbered if i not in done)
    outcomes = run_scripts(engine, remaining, options.concurrency)
    with Output(options.out, total, present=len(done)) as output:
        output.fill(outcomes)


def _rng(seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{number}")


def recover(path: Path) -> set[int]:
    """Numbers of the conversations in the file. A line that was being written when a run died is cut off.

    Raises TrainingError when the file is not one of ours.
    """
    if not path.exists():
        return set()
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    try:
        numbers = {json.loads(line)["number"] for line in complete.splitlines()}
    except (ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} is not a file that `generate` wrote ({error!r}).") from error
    os.truncate(path, len(complete))
    return numbers


class Output:
    """The file that grows, with its progress bar."""

    def __init__(self, path: Path, total: int, present: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")
        self._total, self._written, self._tokens = total, present, 0
        self._bar = tqdm(total=total, initial=present, unit="conversation", desc="generate", mininterval=5)
        self._started = time.perf_counter()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._file.close()

    def fill(self, outcomes: Iterable[Outcome]) -> None:
        """Until there are `total`, or no more. Raises TrainingError when nothing useful comes any more."""
        useless = in_a_row = 0
        for number, conversation in outcomes:
            if conversation is not None:
                self._append(number, conversation)
                in_a_row = 0
            else:
                useless, in_a_row = useless + 1, in_a_row + 1
            if in_a_row >= GIVE_UP_AFTER:
                raise TrainingError(f"{in_a_row} attempts in a row came to nothing: is this a chat model?")
            if self._written >= self._total:
                break
        if useless:
            print(f"{useless} attempts came to nothing (no end of a question, no answer, or too long)")

    def _append(self, number: int, conversation: Conversation) -> None:
        try:
            self._file.write(conversation.to_json(number=number) + "\n")
            self._file.flush()
        except OSError as error:
            raise TrainingError(f"cannot write the text: {error.strerror or error}.") from error
        self._written, self._tokens = self._written + 1, self._tokens + conversation.num_response
        rate = self._tokens / (time.perf_counter() - self._started)
        self._bar.set_postfix_str(f"{rate:.0f} response tokens/s", False)
        self._bar.update()
