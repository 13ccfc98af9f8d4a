"""Stories that nobody wrote: timelines of clusters, drawn by chance, with a ledger of the truth.

`python -m tests.story.drawn` draws clusters whose groups have causes of their own in one minute,
runs them on the coordinator of Coterie in virtual time, lets `coterie pipeline run` read the
records, and compares its findings with the ledger. It prints precision and recall of each rule, and
the clusters that are judged worst, to be read by eye.

broker     the coordinator with its log, and what happens when it is killed
process    a consumer process, as common client libraries behave
causes     what can happen to a group, and what a reader should be told of it
cluster    one drawn cluster
judge      its findings beside the truth
"""
