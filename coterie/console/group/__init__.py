"""One group, as the console shows it.

look       everything that is read of a group at one time
log        the records of the group in `__consumer_offsets`, read on and on
past       facts and records as a history: the data of the report page, replays, exports
rows       a look as JSON
source     looks again and again while a page is open
"""
