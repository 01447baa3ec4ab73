"""The channels that a notice can take: log, webhook, mail, and what Apprise knows."""
