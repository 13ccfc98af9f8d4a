"""Runs tests in processes that lack what only some operating systems have.

__main__     the program: `python -m tests.without windows -- tests/live/test_groups.py`
facilities   what can be taken away, and what macOS and Windows lack of it
open_files   refuses renames and removals of open files
msvcrt       a stand-in for the locks of Windows
start        sitecustomize.py: each Python process runs it first, also a broker of a test
"""
