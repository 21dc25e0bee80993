"""From what the legs found to one order: pure functions on arrays, every number in `parameters`.

Unit keys are `document << ORDINAL_BITS | ordinal`, so the units of a document are consecutive numbers and
two documents never touch.
"""
