"""What the console knows of the groups: pure models, and the source that feeds them.

series   lags and ends over time, in bounded memory
past     rebalances of the last hour, from the facts of the journal or from states that were seen
groups   the rows of the groups page
feed     the source: reads the cluster and the journal while a page is open
"""
