"""The jobs of the pipeline.

inputs       the inputs of an output directory: names, labels, what is new
run          one run: ingest what is new, build all tables (ingest, part_files, scans, file_scan)
follow       following: follow_tail for directories, follow_wire for clusters, live_store
clusters     copying from clusters with our own client
connector    copying from clusters with Spark's Kafka connector
replay       recorded histories under another assignor
range_source the records in given ranges, as a Spark format
"""
