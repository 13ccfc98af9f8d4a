"""Share groups under storms: members, locks in virtual time, leaders and share coordinators move.

    world.py      one seed: a cluster as in `brokers`, two share groups, what goes wrong
    members.py    members that fetch and acknowledge, and an administrator of their groups
    ledger.py     what members were told of each record, and what must hold of it
    settings.py   settings that change while requests are under way
    checks.py     what must hold of leaders and share coordinators
    plants.py     bugs that it must find

The invariants are called H1 to H9, see `ledger.py` and `checks.py`; those of `brokers` hold, too.
"""
