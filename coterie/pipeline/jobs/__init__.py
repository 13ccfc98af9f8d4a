"""What `coterie pipeline` does with a store: read inputs, build tables, follow logs, check, replay.

inputs       find the logs to read, and what is new in them
job          the steps of a run, their progress and the commit
run          one run: ingest what is new, decode it, build gold
clusters     copy what is new in clusters
follow       follow logs (follow_tail: directories, follow_wire: clusters, live_store: appends)
check        rules that always hold
replay       the recorded history under another assignor
"""
