"""Files and watching (spec §6): one way to open a file, the admission rules, the full scan, the watcher.

- `opening`: the only code that opens a file of the corpus
- `rules`: which names are admitted, and the words for why others are not
- `roots`: the agent's roots, and caller paths from and to paths on disk
- `scan`: `Corpus`, the truth about what is on disk
- `events`, `watch`: hints that something may have changed
"""
