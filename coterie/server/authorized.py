"""Authorized operations: without access control everybody may do everything (KIP-430).

Each set is the bits of the operations a resource of that type has, by Kafka's operation codes.
"""

# Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe.
CLUSTER_OPERATIONS = 8096
# Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs.
TOPIC_OPERATIONS = 3576
