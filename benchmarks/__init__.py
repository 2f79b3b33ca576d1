"""Benchmarks against named peers, measured in the same run: ``python -m flopcast.benchmarks``."""
