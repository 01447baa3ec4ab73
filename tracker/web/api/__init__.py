"""The programming interface under /api: the answers of the command line over HTTP."""
