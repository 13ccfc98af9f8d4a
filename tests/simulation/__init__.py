"""A deterministic simulation of the group coordinator: many clients, a slow log, faults, one seed.

    profile.py               what a seed stands for: sizes, timeouts, rates of every fault
    world.py                 virtual time, connections that lose responses, the end of a run
    consumer.py              clients that are members of groups
    other_clients.py         committers, administrators and clients that send invalid requests
    checked_coordinator.py   the coordinator under test with all checks around it
    log.py                   compaction and the newest records of its in-memory log
    checks/                  the invariants, checked after every event
    coverage.py              how often each transition, timer, cause and error occurred
    plants.py, planted.py    bugs that are put into the core on purpose: each must be found
    seeds.py                 many seeds of one of the simulations below, and the search for plants
    consumer_groups/         members of both protocols
    transactions/            producers, readers and kills of one broker
    share_groups/            members of share groups in such a cluster
    brokers/                 a cluster whose brokers go and come

Time and randomness come from the seed alone, so the same seed gives the same trace, byte by byte.
`python -m tests.simulation --help` explains how to run it for longer than the test suite does.
"""
