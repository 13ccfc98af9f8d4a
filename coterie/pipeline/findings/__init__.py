"""Findings: what deserves attention in the tables, most expensive first, in plain Python.

An engine brings the rows of one group together and calls `of_group.group_findings`, and then once
`across.all_findings`. Neither uses Spark or files.

finding        what a finding is, and what it costs
group          one group's rows as the rules read them
bursts         storms, deployments and flapping members
stalls         partitions without progress, and empty groups with a lag
commits        committed offsets that went back, and commits of partitions without an owner
assignments    moves without need, and unbalanced assignments
retention      groups whose offsets expire soon
of_group       the rules, applied to one group
across         a broker's restart that touched many groups; order and ranks
"""
