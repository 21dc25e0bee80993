"""Data only: the documented example configuration, `memory-sidecar.example.toml`."""
