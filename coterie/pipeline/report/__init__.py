"""The report: one HTML page about the gold tables, which needs no network and no other file.

reading      rows of the tables, from the Parquet files
content      the rows, by group
history      the same rows from a history that was just worked out
data         what the page shows: selected, sorted and cut, as compact JSON
series       lag and progress over time
page         the file: skeleton, styles, data and script
words        names and numbers as text
assets       skeleton, styles, and the script that draws
"""
