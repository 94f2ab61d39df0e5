"""When each call of a trace is due again: after the answer it waited for, and the time the job thought in between."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from .trace import Kind, Operation, Trace


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a replay."""

    operation: Operation
    behind: int | None
    """The step before it in the same job: calls are made in the recorded order."""
    after: frozenset[int]
    """Numbers of the steps whose answers must be there first; all smaller than its own."""
    think_s: float
    """How long the job computes between the last of these answers and this call."""


@dataclass
class _Job:
    under_way: list[tuple[float, int]] = field(default_factory=list)
    latest: int | None = None
    answered: int | None = None
    answered_s: float = 0.0

    def last_answer_before(self, start_s: float) -> tuple[int | None, float]:
        """The call whose answer came last before a time, and when."""
        while self.under_way and self.under_way[0][0] <= start_s:
            self.answered_s, self.answered = heapq.heappop(self.under_way)
        return self.answered, self.answered_s


def plan(trace: Trace, *, think: float = 1.0) -> list[Step]:
    """The steps of a replay, in the order of the trace; a step's number is its place.

    A call waits for the last answer before it, among those of its own job: this is the answer that the job had
    waited for. What was under way at that time still was not waited for, so calls that overlapped overlap again. A read
    also waits for its file to be open, a close for all reads of the file. `think` scales the time in between; with 0 a
    replay asks as fast as it gets answers.
    """
    jobs: dict[int, _Job] = {}
    opens: dict[int, int] = {}
    reads: dict[int, list[int]] = {}
    steps = []
    for number, operation in enumerate(trace.operations):
        job = jobs.setdefault(operation.job, _Job())
        answered, answered_s = job.last_answer_before(operation.start_s)
        after = set() if answered is None else {answered}
        if operation.kind is Kind.OPEN:
            opens[operation.handle] = number
        elif operation.handle in opens:
            after.add(opens[operation.handle])
        if operation.kind is Kind.CLOSE:
            after.update(reads.get(operation.handle, ()))
        elif operation.is_read:
            reads.setdefault(operation.handle, []).append(number)
        heapq.heappush(job.under_way, (operation.end_s, number))
        think_s = think * max(0.0, operation.start_s - answered_s)
        steps.append(Step(operation, job.latest, frozenset(after), think_s))
        job.latest = number
    return steps


def thinking_s(trace: Trace) -> float:
    """Time in which a trace's job had no request in flight, and therefore computed."""
    total, reached = 0.0, 0.0
    for operation in trace.operations:
        total += max(0.0, operation.start_s - reached)
        reached = max(reached, operation.end_s)
    return total
