"""What clients did and were told, and the invariants of groups and offsets that it must keep.

A history is a list of operations in the order in which they ended. It knows nothing of how they were made. "Before"
means that one had ended when the other began; operations that overlap may have happened in either order, and one
without an answer may have happened or not.
"""

import bisect
import collections
import threading
import time

# Answers of the database; a heartbeat may be answered from memory and then lag by a notification.
CACHED_SECONDS = 2.5


class Operation:
    """One request. `outcome` is "OK", an error code, or None when nobody knows."""

    def __init__(self, kind, group, **facts):
        self.kind, self.group, self.began, self.ended = kind, group, time.monotonic(), None
        self.outcome, self.member, self.generation, self.current, self.offsets = None, None, None, None, {}
        self.__dict__.update(facts)

    def __repr__(self):
        facts = {k: v for k, v in self.__dict__.items() if v not in (None, {}) and k not in ("kind", "group")}
        return f"{self.kind} {self.group} {facts}"


class History:
    def __init__(self):
        self.operations, self.lock = [], threading.Lock()

    def end(self, operation, outcome, **facts):
        operation.__dict__.update(facts)
        with self.lock:
            operation.outcome, operation.ended = outcome, time.monotonic()
            self.operations.append(operation)

    def of(self, *kinds, outcome="OK"):
        return [o for o in self.operations if o.kind in kinds and (outcome is None or o.outcome == outcome)]


class Latest:
    """The greatest value among the operations that had ended by a given moment."""

    def __init__(self, pairs):
        self.ends, self.best = [], []
        for ended, value in sorted(pairs):
            self.ends.append(ended)
            self.best.append(max(value, self.best[-1]) if self.best else value)

    def before(self, moment):
        place = bisect.bisect_left(self.ends, moment)
        return self.best[place - 1] if place else None


def shares(members, partitions):
    """The assignment of commands-2 2.3: member -> its partitions."""
    members, given, place = sorted(members, key=lambda m: m.encode()), {}, 0
    for number, member in enumerate(members):
        count = len(partitions) // len(members) + (number < len(partitions) % len(members))
        given[member] = partitions[place:place + count]
        place += count
    return given


def by_group(operations):
    found = collections.defaultdict(list)
    for operation in operations:
        found[operation.group].append(operation)
    return found


# ---- groups -----------------------------------------------------------------------------------------


def check_generations_never_fall(history):  # G1
    def current(o):
        return o.current if o.outcome == "GEN_MISMATCH" else o.generation if o.outcome == "OK" else None

    for operations in by_group(o for o in history.operations if o.kind != "HEARTBEAT" and current(o) is not None).values():
        seen = Latest((o.ended, current(o)) for o in operations)
        for o in operations:
            before = seen.before(o.began)
            assert before is None or current(o) >= before, f"generation fell from {before}: {o}"


def check_assignments(history, expansions):  # G2
    of_generation = {}
    for o in history.of("GROUP_STATUS"):
        given = shares(o.assignments, expansions[o.group]) if o.assignments else {}
        assert o.assignments == given, f"not the formula: {o}, expected {given}"
        known = of_generation.setdefault((o.group, o.generation), o.assignments)
        assert known == o.assignments, f"two assignments of one generation: {o} and {known}"
    for o in history.of("JOIN_GROUP", "SYNC_GROUP"):
        known = of_generation.get((o.group, o.generation))
        assert known is None or known.get(o.member) == o.assigned, f"{o}, but the generation has {known}"


def commits(history, outcome="OK"):
    return [(o, partition, offset) for o in history.of("COMMIT_OFFSET", "BATCH_COMMIT", outcome=outcome)
            for partition, offset in o.offsets.items()]


def check_one_owner(history):  # G3
    owners, of_partition = {}, collections.defaultdict(list)
    for o, partition, _ in commits(history):
        owner = owners.setdefault((o.group, partition, o.generation), o.member)
        assert owner == o.member, f"two owners of one generation: {owner} and {o}"
        of_partition[o.group, partition].append(o)
    for operations in of_partition.values():
        seen = Latest((o.ended, o.generation) for o in operations)
        for o in operations:
            before = seen.before(o.began)
            assert before is None or o.generation >= before, f"a commit after one of generation {before}: {o}"


def check_gone_is_gone(history):  # G4
    gone = {}
    for o in history.operations:
        if (o.kind == "LEAVE_GROUP" and o.outcome == "OK") or (o.outcome == "member_not_found"):
            gone.setdefault((o.group, o.member), o.ended)
    for o in history.operations:
        left = gone.get((o.group, o.member))
        if left is None or o.outcome != "OK" or o.kind in ("FETCH_OFFSET", "GROUP_STATUS"):
            continue
        allowed = left + (CACHED_SECONDS if o.kind == "HEARTBEAT" else 0)
        assert o.began <= allowed, f"{o.began - left:.3f} s after it was gone: {o}"


def check_steps(history, final):  # G5
    for group, generation in final.items():
        own = [o for o in history.operations if o.group == group]
        joins = [o for o in own if o.kind == "JOIN_GROUP" and not o.resumes]
        leaves = [o for o in own if o.kind == "LEAVE_GROUP"]
        done = sum(o.outcome == "OK" for o in joins + leaves)
        unknown = sum(o.outcome is None for o in joins + leaves)
        # Everybody who came and did not leave was removed by a sweep, of which each is one step at most.
        swept = sum(o.outcome in ("OK", None) for o in joins)
        assert done <= generation <= done + unknown + swept, f"{group}: {done} steps, {unknown} unknown, at {generation}"


def check_the_lively_stay(history, timeout):  # G6
    renewals = collections.defaultdict(list)
    for o in history.of("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT"):
        renewals[o.group, o.member].append(o)
    for o in history.operations:
        if o.outcome != "member_not_found" or o.member is None:
            continue
        last = [r.began for r in renewals[o.group, o.member] if r.ended <= o.began]
        left = [x for x in history.of("LEAVE_GROUP", outcome=None) if x.member == o.member and x.group == o.group]
        assert left or not last or o.ended - max(last) > timeout, f"expired {o.ended - max(last):.2f} s after: {o}"


def check_groups_stay(history):  # G7
    registered = {}
    for o in history.of("JOIN_GROUP", "REGISTER_GROUP"):
        registered[o.group] = min(o.ended, registered.get(o.group, o.ended))
    for o in history.operations:
        if o.outcome == "group_not_found":
            assert o.began < registered.get(o.group, o.began + 1), f"a registered group was not found: {o}"


# ---- offsets ----------------------------------------------------------------------------------------


def fetched(history):
    found = collections.defaultdict(list)
    for o in history.of("FETCH_OFFSET"):
        for partition, offset in o.offsets.items():
            found[o.group, partition].append((o, -1 if offset is None else offset))
    return found


def check_offsets_never_fall(history):  # O1, O2
    stored = collections.defaultdict(list)
    for o, partition, offset in commits(history):
        stored[o.group, partition].append((o.ended, offset))
    for place, looks in fetched(history).items():
        committed = Latest(stored[place])
        seen = Latest((o.ended, offset) for o, offset in looks)
        for o, offset in looks:
            for before in (committed.before(o.began), seen.before(o.began)):
                assert before is None or offset >= before, f"{before} was there before: {o}"


def check_offsets_were_committed(history):  # nothing from nowhere
    sent = collections.defaultdict(set)
    for o, partition, offset in commits(history, outcome=None):
        sent[o.group, partition].add(offset)
    for place, looks in fetched(history).items():
        for o, offset in looks:
            assert offset == -1 or offset in sent[place], f"nobody committed that: {o}"


def check_regressions(history):  # O4
    tried = collections.defaultdict(list)
    for o, partition, offset in commits(history, outcome=None):
        tried[o.group, partition].append((o.began, offset))
    for o in history.of("COMMIT_OFFSET", "BATCH_COMMIT", outcome="offset_regression"):
        larger = any(began < o.ended and other > offset
                     for partition, offset in o.offsets.items() for began, other in tried[o.group, partition])
        assert larger, f"nothing larger was ever committed: {o}"


def check_batches_are_whole(pairs):  # O3
    for pair in pairs:
        assert len(set(pair)) == 1, f"a part of a batch was seen: {pair}"
