"""Taking a node out of service before it goes away."""
