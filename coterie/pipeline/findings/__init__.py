"""Findings: what deserves attention in the tables, most expensive first, in plain Python.

An engine brings the rows of one group together and calls `of_group.group_findings`, and then once
`across.all_findings`. Neither uses Spark or files.

finding        what a finding is, and what it costs
changes        what happened to a group as the rules read it, without Arrow
group          one group's rows as the rules read them
bursts         storms, deployments and flapping members
departed       members that died without a word, polled too late, or restarted in place
epochs         partitions held back or taken late, and unsettled groups (KIP-848)
stalls         partitions without progress, and empty groups with a lag
commits        committed offsets that went back, and commits of partitions without an owner
assignments    moves without need, and unbalanced assignments
retention      groups whose offsets expire soon
precedence     findings of one group that have the same cause
of_group       the rules, applied to one group
of_journal     the rules about members, applied to facts that were just read, for `groups check`
outages        silences of all groups with new sessions after them
turnovers      groups all of whose members were replaced
across         what happened to many groups; order and ranks
"""
