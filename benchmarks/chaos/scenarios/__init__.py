"""What is done to the service, one thing a file."""
