"""The words of the project as frozen types: everything imports this package, it imports nothing of ours.

- `memory`: sources, line ranges, references, citations, hits, pages, requests and answers
- `corpus`: file stamps, units, annotations, prepared documents
- `authority`: who is asking
- `provider`: capabilities, purposes, health and the provider protocols
- `errors`: the one error tree
"""
