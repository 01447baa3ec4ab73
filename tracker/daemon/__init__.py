"""The background service: when each provider is polled, who leads, how it starts and ends."""
