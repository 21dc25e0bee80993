"""Decisions as values: `Allow` or `Deny(reason)`, default deny, no I/O."""
