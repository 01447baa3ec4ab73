"""Alerts: rules read, evaluated on one snapshot, and their notices delivered."""
