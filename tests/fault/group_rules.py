"""The invariants of groups (G1 to G7) and of committed offsets (O1 to O4), each a function that objects to a history."""

import collections

from history import Latest, by, check_never_falls

# Answers of the database; a heartbeat may be answered from memory and then lag by a notification.
CACHED_SECONDS = 2.5
COMMITS = "COMMIT_OFFSET", "BATCH_COMMIT"
RENEWALS = "JOIN_GROUP", "RESUME", "SYNC_GROUP", "HEARTBEAT"


def shares(members, partitions):
    """The assignment that the formula gives: member -> its partitions."""
    members, given, place = sorted(members, key=lambda m: m.encode()), {}, 0
    for number, member in enumerate(members):
        count = len(partitions) // len(members) + (number < len(partitions) % len(members))
        given[member] = partitions[place:place + count]
        place += count
    return given


# ---- groups -----------------------------------------------------------------------------------------


def check_generations_never_fall(history):
    """G1."""
    def current(o):
        return o.current if o.outcome == "GEN_MISMATCH" else o.generation if o.outcome == "OK" else None

    told = [o for o in history.operations if o.kind != "HEARTBEAT" and current(o) is not None]
    for operations in by("group", told).values():
        check_never_falls(operations, current, "the generation")


def check_assignments(history, expansions):
    """G2. expansions: group -> its partitions in order."""
    of_generation = {}
    for o in history.of("GROUP_STATUS"):
        given = shares(o.assignments, expansions[o.group]) if o.assignments else {}
        assert o.assignments == given, f"not the formula: {o}, expected {given}"
        known = of_generation.setdefault((o.group, o.generation), o.assignments)
        assert known == o.assignments, f"two assignments of one generation: {o} and {known}"
    for o in history.of("JOIN_GROUP", "RESUME", "SYNC_GROUP"):
        known = of_generation.get((o.group, o.generation))
        assert known is None or known.get(o.member) == o.assigned, f"{o}, but the generation has {known}"


def commits(history, outcome="OK"):
    return [(o, partition, offset) for o in history.of(*COMMITS, outcome=outcome)
            for partition, offset in o.offsets.items()]


def check_one_owner(history):
    """G3."""
    owners, of_partition = {}, collections.defaultdict(list)
    for o, partition, _ in commits(history):
        owner = owners.setdefault((o.group, partition, o.generation), o.member)
        assert owner == o.member, f"two owners of one generation: {owner} and {o}"
        of_partition[o.group, partition].append(o)
    for operations in of_partition.values():
        check_never_falls(operations, lambda o: o.generation, "the generation that commits")


def check_gone_is_gone(history):
    """G4."""
    gone = {}
    for o in history.operations:
        if (o.kind == "LEAVE_GROUP" and o.outcome == "OK") or o.outcome == "member_not_found":
            gone.setdefault((o.group, o.member), o.ended)
    for o in history.operations:
        left = gone.get((o.group, o.member))
        if left is None or o.outcome != "OK" or o.kind in ("FETCH_OFFSET", "GROUP_STATUS"):
            continue
        allowed = left + (CACHED_SECONDS if o.kind == "HEARTBEAT" else 0)
        assert o.began <= allowed, f"{o.began - left:.3f} s after it was gone: {o}"


def check_steps(history, final):
    """G5. final: group -> its generation at the end, when nobody is left."""
    for group, generation in final.items():
        own = [o for o in history.operations if o.group == group]
        joins = [o for o in own if o.kind == "JOIN_GROUP"]
        leaves = [o for o in own if o.kind == "LEAVE_GROUP"]
        done = sum(o.outcome == "OK" for o in joins + leaves)
        unknown = sum(o.outcome is None for o in joins + leaves)
        # Who came and was not seen to leave may have been removed by a sweep, of which each is one step at most.
        swept = sum(o.outcome in ("OK", None) for o in joins) - sum(o.outcome == "OK" for o in leaves)
        assert done <= generation <= done + unknown + swept, f"{group}: {done} steps, {unknown} unknown, at {generation}"


def check_the_lively_stay(history, timeout):
    """G6, first half: nobody expires before its session timeout is over."""
    renewals = collections.defaultdict(list)
    for o in history.of(*RENEWALS):
        renewals[o.group, o.member].append(o)
    left = {(o.group, o.member) for o in history.of("LEAVE_GROUP", outcome=None) if o.outcome in ("OK", None)}
    for o in history.operations:
        if o.outcome != "member_not_found" or (o.group, o.member) in left:
            continue
        last = [r.began for r in renewals[o.group, o.member] if r.ended <= o.began]
        assert not last or o.ended - max(last) > timeout, f"expired {o.ended - max(last):.2f} s after: {o}"


def check_the_silent_go(history, calm, bound):
    """G6, second half: from `calm` on nothing dies any more; who is silent for `bound` seconds of that is gone."""
    last = collections.defaultdict(lambda: calm)
    for o in history.operations:
        if o.kind in RENEWALS and o.outcome in ("OK", None) and o.member:
            last[o.group, o.member] = max(last[o.group, o.member], o.ended)
    for o in history.of("GROUP_STATUS"):
        for member in o.assignments:
            silent = o.began - last[o.group, member]
            assert silent <= bound, f"{member} is still there, silent for {silent:.1f} s: {o}"


def check_groups_stay(history):
    """G7."""
    registered = {}
    for o in history.of("JOIN_GROUP", "RESUME", "REGISTER_GROUP"):
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


def check_offsets_never_fall(history):
    """O1, O2."""
    stored = collections.defaultdict(list)
    for o, partition, offset in commits(history):
        stored[o.group, partition].append((o.ended, offset))
    for place, looks in fetched(history).items():
        committed = Latest(stored[place])
        seen = Latest((o.ended, offset) for o, offset in looks)
        for o, offset in looks:
            for before in (committed.before(o.began), seen.before(o.began)):
                assert before is None or offset >= before, f"{before} was there before: {o}"


def check_offsets_were_committed(history):
    """O2: nothing comes from nowhere, and nothing of what was refused is stored."""
    sent = collections.defaultdict(set)
    for o, partition, offset in commits(history, outcome=None):
        if o.outcome in ("OK", None):
            sent[o.group, partition].add(offset)
    for place, looks in fetched(history).items():
        for o, offset in looks:
            assert offset == -1 or offset in sent[place], f"nobody committed that: {o}"


def check_batches_are_whole(history):
    """O3. A PAIR is both offsets, as one snapshot of the database shows them, that are only ever committed together."""
    for o in history.of("PAIR"):
        assert len(set(o.offsets.values())) == 1, f"a part of a batch was seen: {o}"


def check_regressions(history):
    """O4."""
    tried = collections.defaultdict(list)
    for o, partition, offset in commits(history, outcome=None):
        if o.outcome in ("OK", None):
            tried[o.group, partition].append((o.began, offset))
    for o in history.of(*COMMITS, outcome="offset_regression"):
        larger = any(began < o.ended and other > offset
                     for partition, offset in o.offsets.items() for began, other in tried[o.group, partition])
        assert larger, f"nothing larger was ever committed: {o}"
