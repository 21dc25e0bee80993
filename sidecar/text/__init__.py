"""Pure text work, from bytes to what the index stores; no files, no clock, no environment.

- `lines`: decoding, lines, UTF-16 lengths, revisions
- `annotations`: the comments of curated memory (U§10)
- `markdown`: notes cut into units with exact lines (spec §5.1), with `cutting` for over-long ones
- `terms`, from `tokens`, `scripts`, `stopwords` and `dates`: the words of every script, identifiers and
  dates (spec §7)
- `windows`: which lines a hit shows; `fragments`: how a reference names them
- `prepare`: a file as the index wants it
"""
