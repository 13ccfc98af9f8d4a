"""The report: one HTML page about the gold tables, which needs no network and no other file.

reading      rows of the tables, from the Parquet files
content      the rows, by group
history      the same rows from a history that was just worked out
page, group  what the page says: selected, sorted and cut, as values without HTML
templates    the HTML, as Jinja2 templates
gantt, charts, svg    the drawings, as SVG
words        names and numbers as text
"""
