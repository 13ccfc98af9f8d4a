"""A simulation of consumer groups with members of both protocols, faults, and changing topics.

    world.py          virtual time, connections, faults of the broker, changes of topics
    processes.py      processes that come and go, and what they have in common
    consumers.py      a member of the consumer protocol (KIP-848)
    classic.py        a member of the classic protocol, eager or cooperative
    checked.py        the coordinator under test, with a second reading of its log beside it
    checks.py         what must hold after every event
    plants.py         bugs that it must find; search.py runs seeds until one does

Time and randomness come from the seed alone. Two things are not checked, because Kafka does not
hold them either: a classic member may own, for a moment, what an upgrade or a downgrade has given
to another one before it was told; and so may one that joins again under an id that was removed.
"""
