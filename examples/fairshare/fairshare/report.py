"""The shares as a table."""
import os
import sys

from fairshare.split import split

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'vendor'))
import tabulary  # noqa: E402


def report(amount, people):
    """people maps a name to a weight."""
    shares = split(amount, list(people.values()))
    rows = [(name, f'{share // 100}.{share % 100:02d}')
            for name, share in zip(people, shares)]
    return tabulary.table(rows)
