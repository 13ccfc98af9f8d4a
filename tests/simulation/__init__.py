"""A deterministic simulation of the group coordinator: many clients, a slow log, faults, one seed.

    profile.py   what a seed stands for: sizes, timeouts, rates of every fault
    world.py     virtual time, connections that lose answers, the quiet end of a run
    consumer.py, outsiders.py   the clients: members of groups, committers, admins, rogues
    subject.py   the coordinator under test between its clients and its log
    log.py       that log: batches that are acknowledged late, or never
    checks/      the invariants, looked at after every event
    reach.py     how often each transition, timer, cause and error was seen
    planted.py   bugs put into the core on purpose: each must be found

Nothing here knows the time or chance but through the seed: the same seed gives the same trace, byte
by byte. `python -m tests.simulation --help` runs it for longer than `make test` does.
"""
