"""`python -m deploy COMMAND`: plan, roll out and look after the service on AWS and Kubernetes."""

from __future__ import annotations

import argparse
import logging
import sys

from deploy.drain.command import add_command as add_drain
from deploy.errors import DeployError
from deploy.models.command import add_command as add_models
from deploy.planning.command import add_command as add_plan
from deploy.rollout.command import add_command as add_rollout
from deploy.status.command import add_command as add_status
from serving.errors import CanopyError

INTERRUPTED = 130  # as a shell says it of a command that Ctrl-C ended


def main(arguments: list[str]) -> int:
    """Exit status of deploy/errors.py, and one sentence on stderr for what an operator can mend."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="python -m deploy", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_models(commands)
    add_plan(commands)
    add_rollout(commands)
    add_status(commands)
    add_drain(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except DeployError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.status
    except CanopyError as error:
        sys.stderr.write(f"error: {error}\n")
        return DeployError.status
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
