"""Benchmarks of the pipeline: `python -m benchmarks_pipeline`, or `make bench-pipeline`."""
