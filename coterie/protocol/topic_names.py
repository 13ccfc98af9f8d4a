"""Names of the topics that brokers themselves write."""

# Group metadata and committed offsets, compacted.
OFFSETS_TOPIC = "__consumer_offsets"
# The states of transactional ids, compacted.
TRANSACTIONS_TOPIC = "__transaction_state"
# The states of share partitions, snapshots and updates.
SHARE_GROUPS_TOPIC = "__share_group_state"
# Facts about groups, kept by time. A topic of ours; Kafka has none like it.
JOURNAL_TOPIC = "coterie.journal"
# Credentials, rules and tokens. It is a file, named like a partition, and not a topic.
SECURITY_TOPIC = "coterie.security"
# KRaft's own log. Its directory is named like a partition's, but it is not a topic.
METADATA_TOPIC = "__cluster_metadata"
