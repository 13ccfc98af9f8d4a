"""The page about a sweep: one HTML file with drawings in SVG, which loads nothing.

page        the sections in order
matrix      scenarios and machines: unavailability, moves, duplicates
strips      who reads which partition when, all machines on one axis
curves      a metric over the number of members
requests    requests by API
picture     the strips of a run as a small SVG file
comparison  the model beside what real clients did
"""
