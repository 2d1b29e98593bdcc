"""Rolling the service out and looking after it: `python -m deploy`."""
