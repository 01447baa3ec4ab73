"""Provider adapters, one module each, found by entry point (docs/adding-a-provider.md)."""
