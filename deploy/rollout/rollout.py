"""Apply, wait, test, and go back when that fails."""

from __future__ import annotations

from typing import Any, NamedTuple

from deploy.cluster.connection import Cluster
from deploy.cluster.rayservice import find
from deploy.errors import NotHealthyError, NotRolledBackError
from deploy.rollout.apply import apply
from deploy.rollout.manifests import Manifests, Object
from deploy.rollout.readiness import Patience, wait
from deploy.rollout.smoke import Smoke


class RollOut(NamedTuple):
    """`force`: take over fields that other tools have set. `go_back`: to the RayService before, if it fails.
    `smoke`: None for no test.
    """

    cluster: Cluster
    patience: Patience
    smoke: Smoke | None
    force: bool
    go_back: bool

    def run(self, manifests: Manifests) -> None:
        """Raises DeployError before anything serves differently, NotHealthyError when the version before
        serves again, NotRolledBackError when it does not.
        """
        before = find(self.cluster, manifests.name)
        for manifest in manifests.others:
            apply(self.cluster, manifest, self.force)
        self.patience.say(f"{len(manifests.others)} objects applied")
        after = apply(self.cluster, manifests.service, self.force)
        try:
            self._check(after)
        except NotHealthyError as error:
            self._give_up(error, before)

    def _check(self, service: Object) -> None:
        name = service["metadata"]["name"]
        wait(self.cluster, name, service["metadata"]["generation"], self.patience)
        if self.smoke is not None:
            self.patience.say(
                f"asked for a chat completion, answered {self.smoke.test(self.cluster, name)!r}"
            )

    def _give_up(self, error: NotHealthyError, before: Object | None) -> None:
        if before is None:
            raise NotRolledBackError(f"{error} There was no version before; it is left as it is.") from error
        if not self.go_back:
            raise NotRolledBackError(f"{error} It is left as it is.") from error
        self.patience.say(f"failed: {error}")
        self.patience.say("going back to the RayService as it was")
        try:
            back = apply(self.cluster, _as_it_was(before), force=True)
            wait(self.cluster, before["metadata"]["name"], back["metadata"]["generation"], self.patience)
        except NotHealthyError as second:
            raise NotRolledBackError(f"{error} Going back failed too: {second}") from second
        raise NotHealthyError(f"{error} Rolled back; the version before serves again.") from error


def _as_it_was(before: Object) -> Object:
    """For server-side apply, which takes no fields that the cluster keeps itself."""
    metadata: dict[str, Any] = {
        field: before["metadata"][field]
        for field in ("name", "namespace", "labels", "annotations")
        if field in before["metadata"]
    }
    return {
        "apiVersion": before["apiVersion"],
        "kind": before["kind"],
        "metadata": metadata,
        "spec": before["spec"],
    }
