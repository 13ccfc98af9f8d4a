"""The planted bugs that the simulation of transactions must find, and the seeds that find them."""

from tests.planting import Plant

PLANTS = (
    Plant(
        "a batch is appended behind the marker of its transaction",
        "coterie.server.handlers.transactional_produce:TransactionCheck.verify",
        "if error:",
        "if False:",
    ),
    Plant(
        "READ_COMMITTED returns records of open transactions",
        "coterie.storage.log_reader:LogReader.read_committed",
        "stable = self.last_stable_offset",
        "stable = self.log_end_offset",
    ),
    Plant(
        "aborted transactions are not listed",
        "coterie.storage.aborted_transactions:overlapping",
        "if transaction.first_offset < end_offset:",
        "if False:",
    ),
    Plant(
        "the search for aborted transactions ends at the first",
        "coterie.storage.aborted_transactions:overlapping",
        "if transaction.last_stable_offset >= end_offset:",
        "if True:",
    ),
    Plant(
        "a snapshot forgets which transactions are open",
        "coterie.storage.producer_state:ProducerState.restore",
        "first_offset = fields",
        "first_offset = (*fields[:-1], -1)",
    ),
    Plant(
        "every transaction counts as committed",
        "coterie.server.transactions.markers:MarkerWriter._append",
        "commit=markers.commit",
        "commit=True",
    ),
    Plant(
        "every transaction counts as aborted",
        "coterie.server.transactions.markers:MarkerWriter._append",
        "commit=markers.commit",
        "commit=False",
    ),
    Plant(
        "markers are not appended",
        "coterie.server.transactions.markers:MarkerWriter._append",
        "found.append_marker(batch, now_ms)",
        "pass",
    ),
    Plant(
        "a batch that was sent again is stored again",
        "coterie.server.handlers.produce_partitions:_append_validated",
        "if stored is not None:",
        "if False:",
    ),
    Plant(
        "a zombie ends the transaction of its successor, in the newer protocol",
        "coterie.coordinator.transactions.end_transaction:_newer_verdict",
        "return _FENCED",
        "return _END",
    ),
    Plant(
        "a zombie ends the transaction of its successor, in the older protocol",
        "coterie.coordinator.transactions.end_transaction:_verdict",
        "return _FENCED",
        "return _END",
    ),
    Plant(
        "a zombie adds partitions",
        "coterie.coordinator.transactions.use_partitions:_refusal",
        "if transaction.epoch != use.producer_epoch:",
        "if False:",
    ),
    Plant(
        "markers are not written again after a start",
        "coterie.coordinator.transactions.shard:TransactionShard.loaded",
        "if transaction.is_ending:",
        "if False:",
    ),
    Plant(
        "no transaction times out",
        "coterie.coordinator.transactions.expiry:abort_timed_out",
        "transaction.state is ONGOING",
        "False",
    ),
    Plant(
        "a fenced transaction is committed",
        "coterie.coordinator.transactions.fence:fence_and_abort",
        "commit=False",
        "commit=True",
    ),
    Plant(
        "no partition is verified",
        "coterie.server.handlers.transactional_produce:TransactionCheck.verify",
        "if producers.has_open_transaction(producer_id, epoch):",
        "if True:",
    ),
)
