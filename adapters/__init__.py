"""Foreign shapes, translated to and from ours."""
