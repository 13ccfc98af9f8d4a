"""A simulation of a cluster: brokers that come and go, and clients with old connections and images.

    world.py          one seed: virtual time, the brokers, and what goes wrong
    pairs.py          which events meet which states
    faults.py         what happens to brokers, leaders and coordinators
    lines.py          connections that are slow, and lose what is on its way
    clients.py        a client that learns who leads what, and may have learnt it long ago
    members.py        groups, and how their members behave
    classic_members.py, consumer_members.py    members of both protocols
    offsets.py        producers that commit offsets with their transactions
    deletions.py      clients that delete groups, offsets and topics
    records.py        producers and readers of records, with and without transactions
    registers.py      clients that commit and fetch offsets of groups without members
    checks.py         what must hold after every turn of the event loop
    ledger.py         what clients were told, and what must hold of it
    plants.py         bugs that it must find

The brokers are those of the product, on logs in memory. Time, chance and the speed of the disk come
from the seed alone. The invariants are called K1 to K12, see `checks.py` and `ledger.py`.

K6 is about leases and clocks that differ; the brokers of one process have neither
(docs/development.md). A broker that is paused may still
be asked by another one for a marker, because brokers of one process call each other.
"""
