"""What a console can change: each change is planned and shown before it is carried out.

plan          what a change would do
previews      the plans that were shown
verb          a change, as data; `verbs` has all of them
offsets       reset and delete committed offsets
groups        delete groups, expel members
topics        create and delete topics, produce a record
settings      alter settings
transactions  abort transactions
fields        the fields that describe changes

Invariants: a plan changes nothing; what is carried out is a plan that was shown, and only while all
that its guard names is as it was then.
"""
