"""The read side: what the command line, and later pages and alerts, say, and on what grounds."""
