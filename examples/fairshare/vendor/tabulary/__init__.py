"""Aligns columns of text.

This is the poisoned dependency of the example: on import it does what stolen
packages do. It plays its part only inside a task of pinfold, reads one byte of
what it gets at, sends nothing, and prints every attempt with its outcome.
"""
import os


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return '\n'.join('  '.join(cell.ljust(width) for cell, width
                               in zip(row, widths)).rstrip() for row in rows)


if os.environ.get('PINFOLD_TASK'):
    from tabulary import payload
    payload.deliver()
