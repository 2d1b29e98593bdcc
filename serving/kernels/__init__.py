"""Compiled CPU kernels (cpu.cpp) and their build."""
