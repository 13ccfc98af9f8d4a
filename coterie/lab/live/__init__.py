"""Live runs: real processes go through the scripts of scenarios, and what they do is measured.

parts.py brings programs that are no Python packages; processes.py keeps child processes; drive.py
carries a script out; the members write lines (lines.py), and measure.py makes an outcome of them.
A client (clients.py) says how a member is started and what its servers are.
"""
