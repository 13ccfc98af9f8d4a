"""Tests of the pipeline: the codec without Spark, the format `coterie_log` with one session."""
