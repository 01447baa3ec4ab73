"""Prices over time: read as step functions into NumPy (tracks.py) and reduced (reduce.py)."""
