"""The price store: one PostgreSQL, embedded or by URL. Import the modules, not this package."""
