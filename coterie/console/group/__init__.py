"""One group, as the console shows it.

look       everything that is read of a group at one time
past       the history of what is recorded: the data of the report page, replays, exports
rows       a look as JSON
source     looks again and again while a page is open
"""
