"""Putting a version into service, and back when it does not serve."""
