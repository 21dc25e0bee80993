"""Writer, readers, killer and fault injector at once against one service, and what must hold meanwhile.

The promises of spec §1, checked against a model of the workspace: no text is served that left the disk before
it was asked for, no note is lost, a reference gives the text that was shown or nothing, nothing fails but in
declared ways, whatever dies comes back without help, and memory and descriptors do not grow.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from sidecar.benchmark.chaos_service import MortalService, Usage
from sidecar.benchmark.chaos_world import WORD, World
from sidecar.benchmark.damage import WAYS
from sidecar.client import ServiceUnreachable
from sidecar.domain.errors import ProviderFailed, SidecarError, Unavailable

FOUND_SECONDS = 30.0
QUIET_EVERY_SECONDS = 8.0
GROWTH = 1.10
GROWTH_MEGABYTES = 16.0
MORE_DESCRIPTORS = 8
JUDGED_FROM_SECONDS = 240.0
SAY_EVERY_KILLS = 50
LONGEST_LIFE_SECONDS = 0.8
LONGEST_START_SECONDS = 0.5
_READERS = 2
_UNHARMED = {"running.json", "sidecar.sock", "sidecar.lock", "operator.token", "host.token"}


class Broken(Exception):
    """An invariant does not hold; the message says which and how it was seen."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long, how often killed at least, whether the state is damaged before some of the restarts."""

    seconds: float
    kills: int
    damage: bool
    seed: int


class Outcome(msgspec.Struct, kw_only=True):
    """What was done, the slowest finding after a change, and what was held at first and at last."""

    done: Counter[str] = msgspec.field(default_factory=Counter)
    slowest: float = 0.0
    usage: list[Usage] = msgspec.field(default_factory=list)


class Chaos:
    """`run` raises `Broken` for the first invariant that does not hold."""

    def __init__(self, directory: Path, plan: Plan, say: Callable[[str], object] = str) -> None:
        """`say` hears now and then how far it is."""
        self._plan = plan
        self._say = say
        self._random = Random(plan.seed)  # noqa: S311 - nothing is secret here
        workspace = directory / "workspace"
        outside = directory / "outside"
        workspace.mkdir()
        outside.mkdir()
        self._world = World(workspace, outside, self._random)
        self.service = MortalService(workspace, directory)
        self.outcome = Outcome()
        self.events: deque[str] = deque(maxlen=40)
        self._turn = asyncio.Lock()
        self._life = asyncio.Lock()
        self._over = asyncio.Event()
        self._began = time.monotonic()

    async def run(self) -> Outcome:
        """The whole of it. The service is ended in any case."""
        for _ in range(30):
            self._world.act()
        try:
            await self.service.start()
        except BaseException:
            await self.service.end()
            raise
        self._began = time.monotonic()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, self.end_early)
        try:
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._write(),
                    self._harm(),
                    self._kill(),
                    *(self._read() for _ in range(_READERS)),
                ):
                    group.create_task(work)
                group.create_task(self._check_until_over())
        except* Broken as broken:
            raise broken.exceptions[0] from None
        finally:
            await self.service.end()
        return self.outcome

    def end_early(self) -> None:
        """Do no more of it: the last check is made and what was done so far is the outcome."""
        done = self.outcome.done["kills"]
        self._plan = msgspec.structs.replace(self._plan, seconds=self._passed, kills=done)
        self._note("ends before its time")

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    @property
    def _enough_kills(self) -> bool:
        return self.outcome.done["kills"] >= self._plan.kills

    @property
    def _warm(self) -> bool:
        """Whether the process that runs is the last one and has run for a while, so that growth tells."""
        return self._enough_kills and self._passed > self._plan.seconds * 0.6

    def _note(self, kind: str, what: str = "") -> None:
        self.outcome.done[kind] += 1
        if kind == "kills" and self.outcome.done[kind] % SAY_EVERY_KILLS == 0:
            self._say(f"{self.outcome.done[kind]} kills in {self._passed:.0f} s")
        if kind not in ("searches", "gets"):
            self.events.append(f"{self._passed:.2f} {kind} {what}")

    async def _write(self) -> None:
        while not self._over.is_set():
            async with self._turn:
                self._world.act()
                self._note("changes", self._world.last)
            await asyncio.sleep(self._random.expovariate(12))

    async def _harm(self) -> None:
        while not self._over.is_set():
            async with self._turn:
                self._world.harm()
                self._note("faults", self._world.last)
            await asyncio.sleep(self._random.expovariate(3))

    async def _kill(self) -> None:
        """Kills until there were enough in the first quarter; the rest warms up and shows growth.

        Each third one hits a process that is starting, which is when it repairs what the last one left.
        """
        while not self._over.is_set():
            resting = self._enough_kills and self._passed > self._plan.seconds / 4
            await asyncio.sleep(0.2 if resting else self._random.uniform(0.0, LONGEST_LIFE_SECONDS))
            if resting:
                continue
            async with self._life:
                if self._over.is_set():
                    return
                await self._end_a_life()
                while not self._enough_kills and self._random.random() < 1 / 3:
                    await self.service.begin()
                    await asyncio.sleep(self._random.uniform(0.0, LONGEST_START_SECONDS))
                    await self._end_a_life()
                await self._start()

    async def _end_a_life(self) -> None:
        starting = "" if self.service.client else "in a start "
        await self.service.kill()
        harmed = self._damage_state() if self._plan.damage and self._random.random() < 0.5 else ""
        self._note("kills", starting + harmed)

    async def _start(self) -> None:
        try:
            await self.service.start()
        except Unavailable as error:
            raise Broken(f"killed, it does not start again: {error.message}") from error

    def _damage_state(self) -> str:
        files = [
            path
            for path in sorted(self.service.state.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.name not in _UNHARMED
        ]
        if not files:
            return ""
        victim, way = self._random.choice(files), self._random.choice(WAYS)
        way(victim, self._random)
        self.outcome.done["damages"] += 1
        return f"{way.__name__} {victim.relative_to(self.service.state)}"

    async def _read(self) -> None:
        while not self._over.is_set():
            words = list(self._world.lines)
            query = self._random.choice(words) if words and self._random.random() < 0.8 else "amber kettle"
            began = time.monotonic()
            page = await self._call("memory.search", {"version": 2, "query": query, "maxResults": 8})
            if page is not None:
                self._note("searches")
                hits = page["hits"]
                self._check_page(query, hits, began)
                if isinstance(hits, list) and hits and self._random.random() < 0.4:
                    await self._check_reference(self._random.choice(hits), began)
            await asyncio.sleep(0.01)

    async def _call(self, method: str, params: dict[str, object]) -> dict[str, object] | None:
        """The answer, or None when the process was killed meanwhile or answered that it cannot just now."""
        client, epoch = self.service.client, self.service.epoch
        if client is None:
            await asyncio.sleep(0.05)
            return None
        try:
            return await client.call(method, params)
        except ServiceUnreachable as error:
            if epoch == self.service.epoch:
                raise Broken(f"{method}: {error.message}, and nobody killed it") from error
        except ProviderFailed as error:
            raise Broken(f"{method} failed: {error.message}") from error
        except Unavailable:
            self.outcome.done["declared unavailable"] += 1
        except SidecarError as error:
            raise Broken(f"{method} refused: {error.message}") from error
        return None

    def _check_page(self, query: str, hits: object, began: float) -> None:
        for hit in hits if isinstance(hits, list) else ():
            for line in str(hit["excerpt"]).split("\n"):
                for word in WORD.findall(line):
                    known = self._world.lines.get(word)
                    if known is None and word not in self._world.gone:
                        raise Broken(f"{query!r} gave text that never was in the workspace: {line!r}")
                    if self._world.gone.get(word, began) < began:
                        late = began - self._world.gone[word]
                        raise Broken(f"{query!r} gave text that was gone for {late:.3f} s: {line!r}")
                    if known is not None and line not in known:
                        raise Broken(f"{query!r} gave a line that never was: {line!r}")

    async def _check_reference(self, hit: dict[str, object], began: float) -> None:
        reference = hit["reference"]
        answer = await self._call("memory.get", {"reference": reference})
        if answer is None or not isinstance(reference, dict):
            return
        self._note("gets")
        if answer["status"] == "ok":
            if str(answer["text"]).rstrip("\n") != str(hit["excerpt"]).rstrip("\n"):
                raise Broken(f"{reference} gave {answer['text']!r}, shown was {hit['excerpt']!r}")
            return
        words = WORD.findall(str(hit["excerpt"]))
        changed = self._world.touched.get(str(reference["id"]), 0.0) >= began
        if words and not changed and str(reference["id"]) in self._world.notes:
            raise Broken(f"{reference} is not found, though its file did not change")

    async def _check_until_over(self) -> None:
        """Now and then all others wait, and everything has to be found."""
        while self._passed < self._plan.seconds or not self._enough_kills:
            left = self._plan.seconds - self._passed
            await asyncio.sleep(min(QUIET_EVERY_SECONDS, left) if left > 0 else QUIET_EVERY_SECONDS)
            async with self._turn, self._life:
                await self._all_found()
                if self._warm and (usage := self.service.usage()):
                    self.outcome.usage.append(usage)
        async with self._turn, self._life:
            await self._all_found(every_line=True)
        self._over.set()
        self._check_usage()

    async def _all_found(self, *, every_line: bool = False) -> None:
        """Every note, or at the end every line, is found within the bound."""
        began = time.monotonic()
        words = [WORD.findall(text) for text in self._world.notes.values()]
        missing = sorted({word for found in words for word in (found if every_line else found[-1:])})
        while missing:
            still = [word for word in missing if not await self._found(word)]
            if still and time.monotonic() - began > FOUND_SECONDS:
                paths = [path for path, text in self._world.notes.items() if still[0] in text]
                raise Broken(
                    f"{len(still)} of {len(missing)} lines are lost, for example {still[0]} in {paths}"
                )
            if not self.service.alive:
                raise Broken("the process ended by itself")
            missing = still
            await asyncio.sleep(0.05 if still else 0)
        self.outcome.slowest = max(self.outcome.slowest, time.monotonic() - began)
        self._note("checks")

    async def _found(self, word: str) -> bool:
        page = await self._call("memory.search", {"version": 2, "query": word, "maxResults": 3})
        hits = page["hits"] if page is not None else []
        return isinstance(hits, list) and any(word in str(hit["excerpt"]) for hit in hits)

    def _check_usage(self) -> None:
        usage = self.outcome.usage
        if len(usage) < 2 or self._plan.seconds < JUDGED_FROM_SECONDS:
            return
        first, last = usage[0], usage[-1]
        if last.megabytes > first.megabytes * GROWTH + GROWTH_MEGABYTES:
            raise Broken(f"memory grew from {first.megabytes} to {last.megabytes} MB")
        if last.descriptors > first.descriptors + MORE_DESCRIPTORS:
            raise Broken(f"descriptors grew from {first.descriptors} to {last.descriptors}")
