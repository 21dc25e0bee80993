"""Words that carry no subject: indexed, but left out of a query unless nothing else is left.

Lists hold accent-free lower-case forms without apostrophes, as `terms` sees words. Words that are a subject
in another language of the lists ("die", "son", "mit") are left out, for notes are often mixed.
"""

from __future__ import annotations

_ENGLISH = """
a about above after again against all also although always am an and any anybody anyone anything are arent
as at be became because been before being below between both but by can cannot cant could couldnt did didnt
do does doesnt doing done dont down during each either else ever every find for from further get gets
getting give given gives go goes going gone got had hadnt has hasnt have havent having he her here hers
herself him himself his how however i if in into is isnt it its itself just let lets like me mention
mentioned more most much must my myself neither no nor not now of off often on once only onto or other
others ought our ours ourselves out over own per please quite really recall remember remind said same say
says shall she should shouldnt show since so some somebody someone something somewhere such tell than that
the their theirs them themselves then there these they thing things this those though through to together
too toward towards under until up upon us very was wasnt we were werent what whatever when whenever where
wherever whether which whichever while who whoever whom whose why will with within without wont would
wouldnt yes yet you your yours yourself yourselves
"""

_GERMAN = """
aber als auch auf aus bei bin bis das dass dem der doch ein eine einem einen einer eines er haben hat ich
ihr im ist ja kein keine mein mir nach nicht noch nur oder sich sie sind uber um und uns vom von wann warum
was weil wenn wer wie wir wird wo wurde zu zum zur
"""

_FRENCH = """
au aux avec ce ces cette dans de des du elle en est et etait il ils je la le les leur lui mais mes mon ne
nos notre nous ou pas quand que quel quelle qui sa sans se ses sont sur ta tes ton tu un une vos votre vous
"""

_SPANISH = """
al como cual cuando cuanto de del donde el ella ellos en era es esta este esto fue ha hay la las lo los mas
mi muy nos nuestro para pero por porque que quien se sin sobre su sus una uno unos y ya yo
"""

_RUSSIAN = """
а бы был была были было в вам вас весь во вот все вы где для до его ее если есть еще же за и из или их к как
когда кто ли мне мы на нам нас не него нет ни но о об он она они от по при с со так также там то тот ты у
уже что чтобы эта эти это этот я
"""

STOP_WORDS: frozenset[str] = frozenset(" ".join((_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _RUSSIAN)).split())
"""Folded words that say nothing about what a text is about."""
