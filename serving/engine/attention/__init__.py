"""Attention over the paged cache: one protocol, a path that runs anywhere and compiled CPU kernels."""
