"""Benchmarks of the package: how accurate, how fast, and what the papers report. See README.md."""
