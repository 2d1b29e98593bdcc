"""How the service is."""
