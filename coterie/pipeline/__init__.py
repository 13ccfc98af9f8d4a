"""Rebalance forensics: the history of consumer groups from our logs and those of a real Kafka.

codec        decodes logs in bulk
records      the fields of single records
timeline     works out the history of one group, in plain Python
findings     what deserves attention, in plain Python
transforms   make tables from each other: functions of pyarrow tables
engine       runs tasks here or on Spark; exchange, part_files: what tasks read and write
jobs         divide the work into tasks: read inputs, build tables, follow logs
source       makes the codec a Spark format; options, ranges and segments belong to it
report       one HTML page about the tables
store        the output directory

The rules are in docs/spec/pipeline.md. Install the extra with `pip install 'coterie[pipeline]'`.
"""
