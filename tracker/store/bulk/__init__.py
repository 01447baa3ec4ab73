"""Imports by columns: what our own exports hold, as arrays, straight into tables of months.

Row by row an import costs ten times as much in Python as PostgreSQL needs to take the rows. What is
the same for many rows (an offer, its texts, a price) is looked at once; the rest are integers.
"""


class NotByColumns(Exception):
    """Something that only the way row by row can judge, or say what is wrong with."""
