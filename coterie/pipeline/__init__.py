"""Rebalance forensics: the history of consumer groups from our logs and those of a real Kafka.

codec        decodes logs in bulk, without Spark
source       makes the codec a Spark format; options, ranges and segments belong to it
timeline     works out the history of one group, in plain Python
transforms   make the tables from each other, on Spark
jobs         read inputs, build tables, follow logs
report       one HTML page about the tables
store        the output directory

The rules are in docs/spec/pipeline.md. Install the extra with `pip install 'coterie[pipeline]'`.
"""
