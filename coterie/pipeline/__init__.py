"""Looking back at consumer groups: their log, and a real cluster's, as tables on Spark.

`codec` decodes logs in bulk and needs no Spark; `source` makes it a Spark format; `session` starts
Spark with the settings that the rest relies on. Needs the extra: `pip install coterie[pipeline]`.
"""
