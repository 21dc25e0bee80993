"""What a host vouches for: session rows, audiences, origins (spec §4.2, U§6). In memory, for this process.

Providers consume audiences and never rebuild them; nothing here reads a note or a transcript.
"""
