"""The console: one page on which a person sees groups, and why they rebalance, while they do.

routes       what an address of the API does: a row of a table
api          the rows, a subject a module
places       the cluster that is looked at, and its connections
application  the ASGI application: who may ask, the rows, the files of the page
run          `coterie console` as a process

The console is a client: it works with any Kafka. What only a broker of ours tells (causes, members
that are waited for) is read from its journal.
"""
