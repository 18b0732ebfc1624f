"""Benchmarks of pysched beside what people use instead: `python -m bench`, or `pytest bench`."""
