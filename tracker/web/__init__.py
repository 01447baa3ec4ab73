"""What the daemon serves over HTTP: whether it lives, whether it is ready, and its metrics."""
