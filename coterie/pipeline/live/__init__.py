"""What a broker that runs has recorded of a group, and the history that follows from it.

group_log     the records of the group in `__consumer_offsets`, on any Kafka
group_record  journal and group log together, read on and on, and the history

The history is that of `pipeline/timeline`, whatever it was read from, so `groups history
--rebalances`, the page of a group in the console and the report say the same (ADR 115).
"""
