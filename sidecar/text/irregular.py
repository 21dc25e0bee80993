"""Irregular English forms and their bases, applied before stemming in notes and queries alike.

A stemmer knows endings only: "bought" and "buy" would never meet without them.
"""

from __future__ import annotations

_FORMS = """
begin began begun; break broke broken; bring brought; build built; buy bought; catch caught; choose chose
chosen; come came; deal dealt; draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat
ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found; fly flew flown; forget forgot
forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given; go went gone;
grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept; know knew known; lead led;
learn learnt; leave left; lend lent; lose lost; make made; mean meant; meet met; pay paid; ride rode
ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen; seek sought; sell sold; send
sent; shake shook shaken; shine shone; shoot shot; show shown; sing sang sung; sit sat; sleep slept; speak
spoke spoken; spend spent; stand stood; steal stole stolen; stick stuck; strike struck; swim swam swum;
take took taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown; understand
understood; wake woke woken; wear wore worn; win won; write wrote written; child children; person people;
man men; woman women; foot feet; tooth teeth; mouse mice; life lives; wife wives; knife knives
"""

BASE_FORMS: dict[str, str] = {
    form: base for base, *forms in (group.split() for group in _FORMS.split(";")) for form in forms
}
"""Irregular form to base form, folded."""
