"""The Model Context Protocol: two read-only tools and the notes as resources, for coding agents (spec §2).

Needs the extra `mcp`; nothing else of the package imports it.
"""
