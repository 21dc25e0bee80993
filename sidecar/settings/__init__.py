"""Configuration, state directory and tokens: read at start, refused with one clear line (spec §2, §3).

- `model`: the effective settings as frozen types
- `kinds`, `keys`: what each key accepts, and what it is for
- `parse`, `checks`, `load`: file, environment and flags to settings
- `show`: the effective settings as rows with their origin
- `state`: the state directory, its lock, socket address and endpoint record
- `tokens`: secrets and whom they stand for
"""
