"""The contract of U§3-5, line by line, over every provider and every way to call one."""

from __future__ import annotations

from typing import Any

import pytest
import reading_cases  # noqa: F401 - adds its lines to CASES
import trust_cases  # noqa: F401
from callers import CALLERS, PluginCaller, Running
from contract_cases import CASES, Case, Situation
from counting import Counting
from subjects import Subject

PUT = [(caller, case) for caller in CALLERS for case in CASES if case.needs <= caller.can]


def put(caller: Any, line: Case) -> Any:
    """The gateway's plugin needs Node, which the fast tests do without."""
    marks = [pytest.mark.slow] if caller is PluginCaller else []
    return pytest.param(caller, line, id=f"{caller.name}: {line.words}", marks=marks)


@pytest.mark.parametrize(("call_by", "contract"), [put(caller, line) for caller, line in PUT])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_contract(
    call_by: Any, contract: Case, subject: Subject, running: Running, provider: Counting
) -> None:
    """Each case, put by every caller that can put it, to every provider."""
    await contract.run(
        Situation(subject=subject, caller=call_by(running), provider=provider, running=running)
    )


def test_every_case_can_be_put_by_some_caller() -> None:
    able = frozenset[str]().union(*(caller.can for caller in CALLERS))
    assert [case.words for case in CASES if not case.needs <= able] == []
