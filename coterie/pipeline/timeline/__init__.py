"""Work out the history of one group from its records, in plain Python.

The functions take the facts, generations or epochs of one group in order, and return its
rebalances, partition moves, ownership and member sessions. They run in Spark's workers, in
`coterie pipeline show` and in replays, and use neither Spark nor files nor sockets.

model          what a history consists of
from_journal   histories from the journal's facts
from_log       histories from the generations in the group log (classic groups)
epochs         the state of a KIP-848 group over time; epoch_state and epoch_handovers, its parts
from_epochs    histories of KIP-848 groups from their records and facts
combined       the journal where it has facts, and the group log before that
holdings       owners of partitions over time
sessions       members over time
departures, with_departures   leave or expiry, judged from commits
columns, from_rows, from_facts    between rows, facts and the model
"""
