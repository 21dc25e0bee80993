"""Reading what a reference to a transcript names: rendered lines, never the file's own text (spec §5.5).

Lines are counted as the file counts them: `from` and `lines` are physical lines, and a record that says
nothing has no text. What is read is what the index knows and the disk still holds; all else is `NotFound`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidecar.domain.memory import (
    Citation,
    Found,
    GetRequest,
    Hit,
    LineRange,
    NotFound,
    ReadResult,
    Reference,
    ScoreParts,
)
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.index.agent_index import AgentIndex
from sidecar.index.entries import DocumentEntry
from sidecar.service.bounds import MOST_CHARACTERS, MOST_LINES, chosen
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.session_windows import places_of, revision_of, session_hit
from sidecar.service.transcript_documents import facts_of
from sidecar.service.transcript_feed import TranscriptFeed
from sidecar.text.fragments import format_fragment, label, parse_fragment
from sidecar.text.lines import cut_utf16, utf16_length
from sidecar.text.transcript_names import identity_of
from sidecar.text.transcripts import Rendered

NOT_FOUND = NotFound()


class SessionReader:
    """Reads the transcripts of one agent. Every method but `reads` blocks."""

    def __init__(
        self, *, provider_id: str, index: AgentIndex, feed: TranscriptFeed, shelf: SessionShelf
    ) -> None:
        self._provider_id = provider_id
        self._index = index
        self._feed = feed
        self._shelf = shelf

    def reads(self, path: str) -> bool:
        """Whether a reference's id names a transcript."""
        return identity_of(path) is not None

    def get(self, request: GetRequest, transcripts: TranscriptAuthoriser | None) -> ReadResult:
        """The rendered lines of a reference, or `NotFound`: absent, hidden and changed alike."""
        reference = request.reference
        wanted = None if reference.fragment is None else parse_fragment(reference.fragment)
        if reference.fragment is not None and wanted is None:
            return NOT_FOUND
        chunks = self._visible(reference.id, transcripts)
        if not chunks:
            return NOT_FOUND
        if reference.revision is not None:
            return self._named(reference, wanted, chunks, request)
        if wanted is not None and wanted.end > facts_of(chunks[-1]).last_line:
            return NOT_FOUND
        first, last, chars = chosen(wanted, request.from_line)
        if chars is not None and last is not None:
            return self._characters(reference.id, chunks, LineRange(first, last, chars), None)
        return self._read(reference.id, chunks, first, last, request.line_count, None)

    def again(
        self, path: str, where: LineRange, revision: str, transcripts: TranscriptAuthoriser | None
    ) -> Hit | None:
        """The hit on records found earlier, if the caller may see them now and they still say the same."""
        for entry in self._visible(path, transcripts):
            facts = facts_of(entry)
            if facts.start.line <= where.start and where.end <= facts.last_line:
                records = self._shelf.records(entry) or ()
                places = places_of(records, where)
                if places is None or revision_of(records[places.start - 1 : places.end]) != revision:
                    return None
                return session_hit(self._provider_id, path, records, places, score=0.0, parts=ScoreParts())
        return None

    def _visible(self, path: str, transcripts: TranscriptAuthoriser | None) -> Sequence[DocumentEntry]:
        """The chunks of a transcript that a caller may see, in order."""
        identity = identity_of(path)
        known = self._feed.transcripts(self._index.view()).get(path)
        if identity is None or transcripts is None or known is None or known.dropped is not None:
            return ()
        grant = transcripts.grant(identity, reset_cutoff=known.reset)
        if not grant.allowed:
            return ()
        before = grant.before_line
        return [entry for entry in known.chunks if before is None or facts_of(entry).last_line < before]

    def _records(
        self, chunks: Sequence[DocumentEntry], first: int, last: int | None
    ) -> Iterator[Rendered | None]:
        """The records on physical lines from `first` on; None where a chunk is not what was indexed."""
        for entry in chunks:
            facts = facts_of(entry)
            if facts.last_line < first:
                continue
            if last is not None and facts.start.line > last:
                return
            records = self._shelf.records(entry)
            if records is None:
                yield None
                return
            for record in records:
                if first <= record.line and (last is None or record.line <= last):
                    yield record

    def _named(
        self,
        reference: Reference,
        wanted: LineRange | None,
        chunks: Sequence[DocumentEntry],
        request: GetRequest,
    ) -> ReadResult:
        """The named text or nothing: its records must still say what the revision is of."""
        if wanted is None:
            return NOT_FOUND
        records = list(self._records(chunks, wanted.start, wanted.end))
        known = [record for record in records if record is not None]
        if len(known) != len(records) or not known or revision_of(known) != reference.revision:
            return NOT_FOUND
        if wanted.chars is not None:
            return self._characters(reference.id, chunks, wanted, reference)
        first = max(wanted.start, request.from_line or 1)
        return self._read(reference.id, chunks, first, wanted.end, request.line_count, reference)

    def _characters(
        self, path: str, chunks: Sequence[DocumentEntry], wanted: LineRange, named: Reference | None
    ) -> ReadResult:
        records = list(self._records(chunks, wanted.start, wanted.end))
        if len(records) != 1 or records[0] is None or wanted.chars is None:
            return NOT_FOUND
        record, (start, end) = records[0], wanted.chars
        part = record.text[start:end]
        if not part:
            return NOT_FOUND
        text = cut_utf16(part, MOST_CHARACTERS)
        shown = LineRange(record.line, record.line, (start, start + len(text)))
        return self._found(path, [record], text, shown, named, truncated=text != part)

    def _read(
        self,
        path: str,
        chunks: Sequence[DocumentEntry],
        first: int,
        last: int | None,
        line_count: int | None,
        named: Reference | None,
    ) -> ReadResult:
        """Whole records from `first` on, within the bounds."""
        end = last
        if line_count is not None:
            end = first + line_count - 1 if last is None else min(last, first + line_count - 1)
        held: list[Rendered] = []
        rows = size = 0
        following: int | None = None
        for record in self._records(chunks, first, last):
            if record is None:
                return NOT_FOUND
            lines = record.text.count("\n") + 1
            length = utf16_length(record.text) + (1 if held else 0)
            beyond = end is not None and record.line > end
            full = (line_count is None and rows + lines > MOST_LINES) or size + length > MOST_CHARACTERS
            if beyond or (held and full):
                following = record.line
                break
            held.append(record)
            rows += lines
            size += length
        if not held:
            empty = Reference(provider_id=self._provider_id, id=path)
            return Found(
                reference=empty,
                text="",
                from_line=first,
                line_count=0,
                truncated=following is not None,
                next_from=following,
            )
        whole = "\n".join(record.text for record in held)
        text = cut_utf16(whole, MOST_CHARACTERS)
        chars = (0, len(text)) if text != whole else None
        shown = LineRange(held[0].line, held[-1].line, chars)
        cut = following is not None or text != whole
        return self._found(path, held, text, shown, named, truncated=cut, following=following)

    def _found(
        self,
        path: str,
        records: Sequence[Rendered],
        text: str,
        shown: LineRange,
        named: Reference | None,
        *,
        truncated: bool,
        following: int | None = None,
    ) -> Found:
        exact = Reference(
            provider_id=self._provider_id,
            id=path,
            fragment=format_fragment(shown),
            revision=revision_of(records),
        )
        cut = shown.chars is not None
        reference = exact if named is None or (cut and named.revision == exact.revision) else named
        return Found(
            reference=reference,
            text=text,
            citations=(
                Citation(
                    label=label(path, shown),
                    reference=exact if cut else reference,
                    start_line=shown.start,
                    end_line=shown.end,
                ),
            ),
            truncated=truncated,
            from_line=shown.start,
            line_count=shown.end - shown.start + 1,
            next_from=following,
        )
