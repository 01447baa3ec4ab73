"""The command line. Start-up is a feature: nothing heavy is imported before a command runs."""
