"""Models between a folder and a private S3 prefix."""
