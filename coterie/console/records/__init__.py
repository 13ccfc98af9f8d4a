"""Records as the console shows them.

reading   the records of a partition, forwards and backwards, each with the end of its transaction
shown     a record as a row: its parts decoded, and cut if they are large
page      a page of the records of a topic, with the cursor of the next one
matching  what is looked for: a text, a pattern, a field by its path (`json_path`)
search    records that match, found while the reader waits
tail      records as they are written
"""
