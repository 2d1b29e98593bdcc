"""Which choice of m the settings ask for."""

from __future__ import annotations

from collections.abc import Callable

from serving.config import DraftBudget
from serving.spec.aim import EVERYBODY, Aim
from serving.spec.controller import AutoController, Controller
from serving.spec.cost import ForwardProfile, StepCost
from serving.spec.schedule import ScheduledController


class Controllers:
    """Makes one engine's controllers. What was learned outlives a change of mode."""

    def __init__(self, profile: Callable[[], ForwardProfile]) -> None:
        """profile: called when it is first needed; takes seconds where nothing is remembered."""
        self._profile = profile
        self._cost: StepCost | None = None
        self._auto: dict[int, AutoController] = {}

    def __call__(self, settings: DraftBudget) -> Controller:
        match settings.chosen_mode:
            case "auto":
                return self._automatic(settings.max_num_speculative_tokens).aim_at(EVERYBODY)
            case "latency":
                return self._automatic(settings.max_num_speculative_tokens).aim_at(_aim(settings))
            case "fixed":
                assert settings.num_speculative_tokens is not None
                return ScheduledController.fixed(settings.num_speculative_tokens, settings.min_path_value)
            case "schedule":
                assert settings.num_speculative_tokens_per_batch_size is not None
                entries = settings.num_speculative_tokens_per_batch_size
                return ScheduledController(entries, settings.min_path_value)
            case "off":
                return ScheduledController.fixed(0)

    def _automatic(self, max_nodes: int) -> AutoController:
        if max_nodes not in self._auto:
            self._cost = self._cost or StepCost(self._profile())
            self._auto[max_nodes] = AutoController(self._cost, max_nodes)
        return self._auto[max_nodes]


def _aim(settings: DraftBudget) -> Aim:
    weight, floor = settings.low_priority_weight, settings.min_throughput
    return Aim((1.0, 0.1 if weight is None else weight), 0.8 if floor is None else floor)
