"""The whole service under load while its parts are killed, replaced and drained."""
