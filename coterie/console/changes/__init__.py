"""What a console can change: each change is planned and shown before it is carried out.

plan         a verb, its plan, and the plans that were shown
groups       reset offsets, delete offsets and groups, expel members
topics       create and delete topics, produce a record
settings     alter settings
transactions abort transactions
VERBS        all of them (in `verbs`)

Invariants: a plan changes nothing; what is carried out is a plan that was shown, and only while all
that its guard names is as it was then.
"""
