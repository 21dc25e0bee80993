"""The derived index of one agent: SQLite is the authority, Tantivy and HNSW are made from it (spec §7).

- `documents`: what the index is given; `packing`: how it lies in memory and in SQLite
- `schema`, `catalog`, `vector_cache`: the SQLite authority
- `lexical`, `lexicon`, `segment_files`: words
- `vectors`, `vector_base`: vectors
- `adopting`: going over to the vectors of a model
- `pending`: blocks that have no vector yet
- `view`: one immutable snapshot for a search
- `agent_index`: the one writer, generations, repair and clean-up
"""
