"""What an operator can mend. `status` is the exit status; argparse's own is 2."""

from __future__ import annotations


class DeployError(Exception):
    """It cannot be done. The message is one sentence that says why and, where that is known, what to do."""

    status = 1


class NotHealthyError(DeployError):
    """The service or the node is not as it should be: not ready, not empty, or rolled back to what was."""

    status = 3


class NotRolledBackError(DeployError):
    """A roll-out failed and what it left behind needs somebody to look at it."""

    status = 4
