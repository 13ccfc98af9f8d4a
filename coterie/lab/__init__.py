"""The rebalance lab: protocols of group rebalancing on one workload, in virtual time.

kernel      virtual time, seeded chance, the trace
links       messages between endpoints, in order, late or held back
pods        processes that start, stop, die and pause
workload    partitions and the records that arrive in them
ledger      who reads what: times without a reader by cause, duplicates, moves
gaps        the cause of each time without a reader
parameters  the figures of the model, and the presets of the machines
scenario    scenario files; `script` turns their steps into events
machines    the protocols
run         one run: a machine, a scenario, a seed
sweep       many runs in several processes, into Parquet
compare     pairs of runs with the same seed
report      one HTML page about a sweep

The model uses no real time and no chance of its own: for the same inputs it gives the same outcome,
byte for byte.
"""
