"""Pages for people, made on the server: they work without JavaScript."""
