"""The lines of the contract about searching, reading, pages and capabilities (U§3, U§4)."""

from __future__ import annotations

import msgspec
import pytest
from callers import Refused
from contract_cases import CITATION, HIT, PAGE, READ, RECALL, REFERENCE, Situation, case, lacks


@case("a search finds the text that was asked for, in hits of exactly the contract's shape")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        page = await view.search(query=on.subject.query)
    assert set(page) <= PAGE
    assert len(page["hits"]) >= 3
    assert any(on.subject.known in hit["excerpt"] for hit in page["hits"])
    for hit in page["hits"]:
        assert set(hit) <= HIT
        assert set(hit["reference"]) <= REFERENCE
        assert hit["reference"]["providerId"] == on.subject.provider_id
        assert all(isinstance(value, str) and value.strip() for value in hit["reference"].values())
        for citation in hit.get("citations", []):
            assert set(citation) <= CITATION
            assert citation["label"].strip()
            assert citation.get("reference", hit["reference"])["providerId"] == on.subject.provider_id
            assert 1 <= citation.get("startLine", 1) <= citation.get("endLine", 1)
        if "automaticRecall" in hit:
            assert set(hit["automaticRecall"]) <= RECALL
            assert isinstance(hit["automaticRecall"]["eligible"], bool)


@case("hits that have scores come best first")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        scores = [hit.get("score", 0) for hit in (await view.search(query=on.subject.query))["hits"]]
    assert scores == sorted(scores, reverse=True)


@case("a query that nothing answers is an empty page and no failure")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        page = await view.search(query="xylophonist quartermaster")
    assert page["hits"] == []
    assert page.get("coverage") != "partial"


@case("a page holds no more than was asked for")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        assert len((await view.search(query=on.subject.query, maxResults=1))["hits"]) == 1


@case("a minimum score is strict")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        page = await view.search(query=on.subject.query)
        scores = [hit["score"] for hit in page["hits"] if "score" in hit]
        bar = scores[0] if scores else 0.01
        above = (await view.search(query=on.subject.query, minScore=bar))["hits"]
        assert len(above) == len([score for score in scores if score >= bar])
        assert (await view.search(query=on.subject.query, minScore=99))["hits"] == []


@case("what a hit names can be read, and holds what the hit showed")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        hits = (await view.search(query=on.subject.query))["hits"]
        hit = next(hit for hit in hits if on.subject.known in hit["excerpt"])
        read = await view.get(hit["reference"])
    assert set(read) <= READ
    assert read["status"] == "ok"
    assert read["reference"]["providerId"] == on.subject.provider_id
    assert on.subject.known in read["text"]


@case("a reference that names nothing is `not_found` and says nothing else")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        read = await view.get({"providerId": on.subject.provider_id, "id": on.subject.missing})
    assert read == {"status": "not_found"}


@case("`from` and `lines` choose the lines, and the answer says where they are and where it goes on")
async def _(on: Situation) -> None:
    handbook = {"providerId": on.subject.provider_id, "id": on.subject.handbook}
    async with on.opened() as view:
        middle = await view.get(handbook, from_=2, lines=1)
        last = await view.get(handbook, from_=3, lines=5)
    assert (middle["from"], middle["lines"], middle["nextFrom"], middle["truncated"]) == (2, 1, 3, True)
    text, _, notice = middle["text"].partition("\n\n")
    assert text == "second line of the handbook"
    assert notice == ("[More content available. Use from=3 to continue.]" if on.subject.notices else "")
    assert (last["from"], last["lines"], last["text"]) == (3, 1, "third line of the handbook")
    assert not {"truncated", "nextFrom"} & set(last)


@case("a reading past the end is an empty text, not a failure")
async def _(on: Situation) -> None:
    handbook = {"providerId": on.subject.provider_id, "id": on.subject.handbook}
    async with on.opened() as view:
        read = await view.get(handbook, from_=99)
    assert (read["status"], read["text"], read["lines"]) == ("ok", "", 0)


@case("a revision that is not this text's is not found; a provider without revisions looks at none")
async def _(on: Situation) -> None:
    stale = {"providerId": on.subject.provider_id, "id": on.subject.handbook, "revision": "0" * 40}
    async with on.opened() as view:
        read = await view.get(stale)
        hits = (await view.search(query=on.subject.query))["hits"]
    assert read["status"] == ("not_found" if on.subject.revisions else "ok")
    assert all(("revision" in hit["reference"]) is on.subject.revisions for hit in hits)


@case("a page that can be continued is, and no hit comes twice")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        whole = [hit["reference"] for hit in (await view.search(query=on.subject.query))["hits"]]
        page = await view.search(query=on.subject.query, maxResults=2)
        if not capabilities.pagination:
            assert "nextCursor" not in page
            return
        walked = [hit["reference"] for hit in page["hits"]]
        while "nextCursor" in page:
            page = await view.search(query=on.subject.query, maxResults=1, cursor=page["nextCursor"])
            walked += [hit["reference"] for hit in page["hits"]]
    assert [name for name in whole if name not in walked] == []
    assert len({msgspec.json.encode(name) for name in walked}) == len(walked)


@case("a cursor that was tampered with, or is of another query, gives no hits")
async def _(on: Situation) -> None:
    if not (await on.capabilities()).pagination:
        return
    async with on.opened() as view:
        page = await view.search(query=on.subject.query, maxResults=1)
        for query, cursor in (
            (on.subject.query, "x" + page["nextCursor"]),
            ("another question", page["nextCursor"]),
        ):
            with pytest.raises(Refused) as caught:
                await view.search(query=query, cursor=cursor)
            assert (caught.value.code, caught.value.details_code) == ("UNAVAILABLE", "CURSOR_INVALID")


@case("an undeclared source is refused before the provider is asked, the first one by name")
async def _(on: Situation) -> None:
    declared = (await on.capabilities()).sources
    async with on.opened() as view:
        for sources in (["memory"], ["sessions"], ["memory", "sessions"], ["sessions", "memory"]):
            missing = [source for source in sources if source not in declared]
            if missing:
                call = view.search(query="x", sources=sources)
                await on.refused(call, "CAPABILITY_UNSUPPORTED", lacks(missing[0]))
            else:
                await view.search(query="x", sources=sources)


@case("a cursor is refused before a provider without pages is asked")
async def _(on: Situation) -> None:
    if (await on.capabilities()).pagination:
        return
    async with on.opened() as view:
        await on.refused(
            view.search(query="x", cursor="c"), "CAPABILITY_UNSUPPORTED", lacks("pagination", "")
        )


@case("active project keys are refused before a provider without that filter is asked", "keys")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        asked = view.search(query=on.subject.query, activeProjectKeys=["example.com/x"])
        if capabilities.project_filter:
            hits = (await asked)["hits"]
            assert hits == [] if on.subject.partitions else len(hits) >= 3, "what has no project key passes"
        else:
            await on.refused(asked, "CAPABILITY_UNSUPPORTED", lacks("project filter", ""))


@case("an empty list of project keys asks for nothing", "keys")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        assert len((await view.search(query=on.subject.query, activeProjectKeys=[]))["hits"]) >= 3


@case("of several undeclared capabilities the source is named first, then the cursor", "keys")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    asked = {"sources": ["memory", "sessions"], "cursor": "c", "activeProjectKeys": ["k"]}
    order = {
        "sources": None if "sessions" in capabilities.sources else lacks("sessions"),
        "cursor": None if capabilities.pagination else lacks("pagination", ""),
        "activeProjectKeys": None if capabilities.project_filter else lacks("project filter", ""),
    }
    async with on.opened() as view:
        for name, message in order.items():
            if message is not None:
                await on.refused(view.search(query="x", **asked), "CAPABILITY_UNSUPPORTED", message)
            del asked[name]


@case("searching by words alone is a hint that every provider takes", "keys")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        assert len((await view.search(query=on.subject.query, lexicalOnly=True))["hits"]) >= 3


@case("candidates of a kind are given exactly where they are declared", "candidates")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        for kind in ("trigger", "project"):
            asked = view.candidates(kind=kind, activeProjectKeys=["k"])
            if kind not in capabilities.candidates:
                await on.refused(asked, "CAPABILITY_UNSUPPORTED", lacks(kind, "candidates"))
            elif not capabilities.project_filter:
                await on.refused(asked, "CAPABILITY_UNSUPPORTED", lacks("project filter", ""))
            else:
                assert set(await asked) <= PAGE
