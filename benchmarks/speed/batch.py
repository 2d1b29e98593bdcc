"""Section `batch`: requests in waves of several, questions of all tasks mixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.answers import Answer, Method, Wave
from benchmarks.asked import Asked
from benchmarks.identity import Comparer
from benchmarks.report import Row
from benchmarks.rotation import rotated
from benchmarks.speed.tasks import tau
from benchmarks.stats import paired_ratio

SECTION = "batch"
MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Load:
    """All questions, answered in waves of the same size, one after the other."""

    waves: tuple[Wave, ...]

    @property
    def answers(self) -> list[Answer]:
        return [answer for wave in self.waves for answer in wave.answers]

    @property
    def tokens_per_s(self) -> float:
        """Prefill, and the ends where fewer are left, included."""
        return sum(wave.num_tokens for wave in self.waves) / sum(wave.seconds for wave in self.waves)

    @property
    def decode_tokens_per_s(self) -> float | None:
        """While every request of a wave decodes; None where that was never the case."""
        if all(len(wave.answers) == 1 for wave in self.waves):
            answers = [answer for answer in self.answers if answer.num_tokens > 1]
            seconds = sum(answer.last_s - answer.first_s for answer in answers)
            return sum(answer.num_tokens - 1 for answer in answers) / seconds if seconds else None
        windows = [wave.window for wave in self.waves if wave.window is not None]
        seconds = sum(window.seconds for window in windows)
        return sum(window.committed_tokens for window in windows) / seconds if seconds else None


# loads[method, concurrency][repeat]
Loads = Mapping[tuple[str, int], list[Load]]


def num_waves(questions: int, concurrency: int) -> int:
    """Full waves only: a smaller one at the end would blur the figure."""
    return questions // concurrency


def run_loads(
    asked: list[Asked],
    methods: Sequence[Method],
    concurrency: Sequence[int],
    repeats: int,
    tick: Callable[[], object],
) -> Loads:
    """`tick` is called after every wave."""
    loads: dict[tuple[str, int], list[Load]] = {(m.name, c): [] for m in methods for c in concurrency}
    for repeat in range(repeats):
        for place, size in enumerate(concurrency):
            for method in rotated(methods, repeat + place):
                loads[method.name, size].append(_run_load(asked, method, size, tick))
    return loads


def _run_load(asked: list[Asked], method: Method, size: int, tick: Callable[[], object]) -> Load:
    waves = []
    for index in range(num_waves(len(asked), size)):
        prompts = [question.prompt for question in asked[index * size : (index + 1) * size]]
        waves.append(method.run(prompts))
        tick()
    return Load(tuple(waves))


def batch_rows(asked: list[Asked], loads: Loads, methods: Sequence[Method], comparer: Comparer) -> list[Row]:
    """Answers are compared with the first method's at the lowest concurrency: a batch must change nothing."""
    sizes = sorted({size for _, size in loads})
    plain = loads[methods[0].name, sizes[0]][0].answers
    return [_row(asked, loads, method, size, plain, comparer) for size in sizes for method in methods]


def _row(
    asked: list[Asked], loads: Loads, method: Method, size: int, plain: list[Answer], comparer: Comparer
) -> Row:
    own, baseline = loads[method.name, size], loads[method.baseline, size]
    single = loads.get((method.name, 1))
    answers = [answer for load in own for answer in load.answers]
    count = min(len(own[0].answers), len(plain))  # the last questions may not have made a full wave
    outcomes = [comparer.compare(asked[:count], load.answers[:count], plain[:count]) for load in own]
    outcome = sum(outcomes[1:], outcomes[0])
    speedup = paired_ratio(_rates(own), _rates(baseline))
    return Row(
        SECTION,
        MIXED,
        method.name,
        size,
        tokens_per_s=median(_rates(own)),
        speedup_vs_plain=speedup.value,
        tau=tau(answers),
        identical=outcome.share,
        special={
            "speedup_interval": list(speedup[1:]),
            "decode_tokens_per_s": _decode_rate(own),
            "scaling": single and paired_ratio(_rates(own), _rates(single)).value,
            "decode_scaling": single and _ratio(_decode_rate(own), _decode_rate(single)),
            "tokens": sum(answer.num_tokens for answer in answers),
            **outcome.as_json(),
        },
    )


def _rates(loads: list[Load]) -> list[float]:
    return [load.tokens_per_s for load in loads]


def _decode_rate(loads: list[Load]) -> float | None:
    rates = [rate for load in loads if (rate := load.decode_tokens_per_s) is not None]
    return median(rates) if rates else None


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value / base
