"""`python -m training COMMAND`: from prompts to a draft head for a target model."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from serving.errors import CanopyError
from training import capture_command, evaluate, export_command, generate, train

COMMANDS = {
    "generate": (generate, "let the target write text to train on"),
    "capture": (capture_command, "run the target over text and keep its features on disk"),
    "train": (train, "train a head"),
    "evaluate": (evaluate, "measure heads on text they have not seen"),
    "export": (export_command, "write a run's head as a drafter loads it"),
}


def main() -> int:
    parser = ArgumentParser(prog="python -m training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, purpose) in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args()
    try:
        options.run(options)
    except (CanopyError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
