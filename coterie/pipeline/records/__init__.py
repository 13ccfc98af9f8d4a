"""The fields of single records as columns, without numpy and pyarrow.

The codec uses them for records of which a log has few, and `plain_log` for all.
"""
