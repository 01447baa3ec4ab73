"""Benchmarks: ratios against named yardsticks, printed as tables. Nothing fails by time."""
