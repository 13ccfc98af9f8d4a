"""Runs tests with the Python of Windows, under Wine.

__main__       the program: `python -m tests.windows`
installation   Wine, Python from Maven Central, wheels from PyPI
"""
