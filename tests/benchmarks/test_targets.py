"""Targets are judged by the right rows, the right way round."""

from __future__ import annotations

from typing import Any

from benchmarks.report import Row
from benchmarks.speed.targets import Verdict, verdicts


def task_row(task: str, method: str, speedup: float, differences: list[dict[str, Any]]) -> Row:
    special = {"decode_speedup_vs_plain": 2 * speedup, "compared": 8, "differences": differences}
    return Row("tasks", task, method, 1, 50.0, speedup, identical=1 - len(differences) / 8, special=special)


def judged(*rows: Row) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in verdicts(rows)}


def test_plain_is_measured_against_transformers() -> None:
    (verdict,) = [v for name, v in judged(task_row("all", "transformers", 0.5, [])).items() if "/" in name]
    assert (verdict.measured, verdict.decode, verdict.met) == ("2.00x", "1.00x", True)
    assert not judged(task_row("all", "transformers", 0.7, []))["plain / transformers, all tasks"].met


def test_lookup_must_gain_on_cnn_dm_and_lose_nowhere() -> None:
    rows = [task_row(task, "prompt_lookup", 1.0, []) for task in ("cnn_dm", "gsm8k", "all")]
    found = judged(*rows, task_row("alpaca", "prompt_lookup_pool_http", 0.9, []))
    assert not found["prompt_lookup / plain, cnn_dm"].met
    assert found["prompt_lookup / plain, gsm8k"].met
    assert not found["prompt_lookup_pool_http / plain, alpaca"].met
    assert not any("all" in name for name in found if name.startswith("prompt_lookup"))


def test_a_clear_preference_overruled_is_a_fault_and_rounding_is_not() -> None:
    def verdict(margin: float | None, method: str = "prompt_lookup") -> Verdict | None:
        difference = {"task": "gsm8k", "question_id": 1, "position": 3, "margin": margin}
        return judged(task_row("gsm8k", method, 1.0, [difference])).get("answers other than plain's")

    for margin, met in ((5e-4, True), (2e-3, False), (None, False)):
        found = verdict(margin)
        assert found is not None
        assert found.met is met
    assert verdict(0.5, method="transformers") is None  # kernels of its own


def test_the_service_s_sum_is_judged() -> None:
    rows = [
        Row("memory", "fill", "prompt_lookup_pool_http", 16, special={"role": role, "pss_bytes": size} | more)
        for role, size, more in (("raylet", 9e9, {}), ("total", 2.9e9, {"kv_tokens": 16384}))
    ]
    (verdict,) = verdicts(rows)
    assert verdict.met
    assert "16,384 tokens" in verdict.name
    rows[1].special["kv_tokens"] = None
    assert not verdicts(rows)[0].met


def test_a_head_must_gain_everywhere_and_half_as_much_again_on_average() -> None:
    rows = [task_row(task, "eagle3_lookup_pool_http", 1.3, []) for task in ("cnn_dm", "all")]
    found = judged(*rows)
    assert found["eagle3_lookup_pool_http / plain, cnn_dm"].met
    assert not found["eagle3_lookup_pool_http / plain, all"].met


def test_drafting_is_measured_against_the_forward() -> None:
    shares = {1: 0.3, 8: 0.3}
    rows = [
        Row("breakdown", "mixed", "eagle3", size, special={"draft_share": share, "overhead_share": 0.0})
        for size, share in shares.items()
    ]
    found = judged(*rows)
    assert found["drafting / verify forward, 1 at once"].met
    assert not found["drafting / verify forward, 8 at once"].met


def test_tau_is_the_mean_of_the_tasks_at_one_size() -> None:
    def row(task: str, size: int, tau: float) -> Row:
        return Row("tau", task, "eagle3", 1, tau=tau, special={"num_speculative_tokens": size})

    found = judged(row("gsm8k", 32, 3.0), row("all", 16, 2.6), row("all", 32, 2.4))
    assert list(found) == ["tau at m = 32, eagle3"]
    assert not found["tau at m = 32, eagle3"].met


def test_overhead_and_scaling() -> None:
    step = Row("breakdown", "mixed", "plain", 8, special={"overhead_share": 0.151})
    special = {"scaling": 5.9, "decode_scaling": 7.0, "compared": 16, "differences": []}
    load = Row("batch", "mixed", "plain", 16, special=special)
    found = judged(step, load)
    assert not found["step outside forward and drafter, plain"].met
    assert found["16 requests / one, plain"] == ("16 requests / one, plain", ">= 6x", "5.90x", "7.00x", False)
