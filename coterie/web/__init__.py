"""The components with which pages are drawn: the one-file report and the console.

They are ES modules in `components`, which take what they draw as arguments. The console serves them
under `/shared/`; a report, which is one file, has them joined into one script.
"""
