"""The HTTP door: decode, call one service, encode. No storage and no rules of its own."""
