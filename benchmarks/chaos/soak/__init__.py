"""The service under steady load for long, and what it takes more and more of."""
