"""What can go wrong in the pipeline through no fault of ours; each message is a sentence for the user."""

from __future__ import annotations

from serving.errors import CanopyError


class TrainingError(CanopyError):
    """Settings, files or a run that do not fit together."""

    code = "training_failed"


class DataError(TrainingError):
    """A data file that cannot be used as it is. Names the file and the line."""

    code = "bad_data"
