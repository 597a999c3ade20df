"""The invariants of transactions (T1 to T11), each a function that objects to a history and to what is there at its end.

What is there at the end settles most of it: an output log only grows, so its end holds every state that it ever had. At
a length of h its stable offset is the first offset of the transactions that have records below h and no marker there.
"""

import bisect
import collections
import functools
import re

from history import Later, Latest, by, check_never_falls

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
READS = "CONSUME", "STREAM"
STEPS = "BEGIN_TXN", "TXN_PUBLISH", "SEND_OFFSETS_TO_TXN", "END_TXN"  # what carries an epoch
SWEEP_SECONDS = 30  # T10
STATES = {"commit": "committed", "abort": "aborted"}

# A record of an output log; `id` and `marker` are empty where there is none. Payloads begin with the input's name.
Entry = collections.namedtuple("Entry", "offset payload id epoch number marker")


def key_of(entry):
    return entry.id, entry.epoch


class Final:
    """What is there at the end.

    log: output partition -> every Entry; committed: the same as read_committed readers see it; rows: transaction ->
    (state, messages, offsets) as the database tells it; offsets: input partition -> committed offset; inputs: the names
    of all.
    """

    def __init__(self, log, committed, rows, offsets, inputs):
        self.log, self.committed, self.rows, self.offsets, self.inputs = log, committed, rows, offsets, inputs
        self.data, self.markers, self.state = collections.defaultdict(list), collections.defaultdict(list), {}
        for partition, entries in log.items():
            for e in entries:
                if e.marker:
                    self.markers[partition, key_of(e)].append(e.offset)
                    self.state[key_of(e)] = STATES[e.marker]
                elif e.id:
                    self.data[partition, key_of(e)].append(e)
        for key, row in rows.items():
            self.state.setdefault(key, row[0])
        self.places = collections.defaultdict(set)  # transaction -> partitions
        for partition, key in self.data:
            self.places[key].add(partition)
        self.visible = {partition: [e.offset for e in entries if not e.marker and self.is_visible(e)]
                        for partition, entries in log.items()}
        self.stable = {partition: self.stable_offsets(entries) for partition, entries in log.items()}

    def is_visible(self, entry):
        return not entry.id or self.state.get(key_of(entry)) == "committed"

    @staticmethod
    def stable_offsets(entries):
        """[h]: the stable offset when the log had h records."""
        undecided, found = {}, [0]
        for e in entries:
            if e.marker:
                undecided.pop(key_of(e), None)
            elif e.id:
                undecided.setdefault(key_of(e), e.offset)
            found.append(next(iter(undecided.values()), e.offset + 1))
        return found

    def visible_in(self, partition, start, end):
        offsets = self.visible[partition]
        return offsets[bisect.bisect_left(offsets, start):bisect.bisect_left(offsets, end)]


# ---- what was known when ------------------------------------------------------------------------------


def epoch_at(history):
    """o -> the epoch its id had while it ran, or None when nobody can say."""
    inits = by("id", history.of("INIT_PRODUCER_ID", outcome=None))

    def epoch(o):
        before = [i for i in inits[o.id] if i.outcome == "OK" and i.ended < o.began]
        if not before:
            return None
        last = max(before, key=lambda i: i.epoch)
        # One that was never answered may have happened a good while later.
        doubtful = (i for i in inits[o.id] if i.outcome in ("OK", None) and i.began < o.ended and i not in before)
        return None if any(i.outcome == "OK" or i.began > last.began - 30 for i in doubtful) else last.epoch

    return epoch


def staged(history, final):
    """[(operation, input partition, offset)] of what was accepted in committed transactions."""
    return [(o, partition, offset) for o in history.of("SEND_OFFSETS_TO_TXN") if final.state.get(o.key) == "committed"
            for partition, offset in o.offsets.items()]


@functools.cache
def told(history):
    """[(transaction, "committed" or "aborted", operation)] of all that anybody was told."""
    found, epoch = [], epoch_at(history)
    refusals = {"transaction_aborted": "aborted", "transaction_already_committed": "committed"}
    for o in history.of("END_TXN", outcome=None):
        state = o.state if o.outcome == "OK" else refusals.get(o.outcome)
        if state:
            found.append((o.key, state, o))
    begun = {o.key: o.ended for o in history.of("BEGIN_TXN")}
    for o in history.of("TXN_STATUS"):
        key = (o.id, epoch(o))
        # Before it has begun, a transaction is shown as aborted.
        if o.state == "committed" or (o.state == "aborted" and begun.get(key, o.began) < o.began):
            if key[1] is not None:
                found.append((key, o.state, o))
    return found


@functools.cache
def known_commits(history, final):
    """Transaction -> the first moment at which somebody knew that it was committed."""
    found = {}

    def know(key, moment):
        found[key] = min(moment, found.get(key, moment))

    for key, state, o in told(history):
        if state == "committed":
            know(key, o.ended)
    for o in history.of(*READS):
        if o.isolation == COMMITTED:
            for e in o.seen:
                if e.id:
                    know(key_of(e), o.ended)
    sources = collections.defaultdict(set)
    for o, partition, offset in staged(history, final):
        sources[partition, offset].add(o.key)
    for o in history.of("FETCH_OFFSET"):
        keys = sources.get((o.partition, o.offset), ())
        if len(keys) == 1:
            know(*keys, o.ended)
    return found


def lengths(history, final, of):
    """Partition -> Latest of a length that its log had. `of` is "answers", or "commits" that were known."""
    pairs = collections.defaultdict(list)
    if of == "commits":
        for key, moment in known_commits(history, final).items():
            for partition in final.places[key]:
                pairs[partition] += [(moment, offset + 1) for offset in final.markers[partition, key]]
    else:
        for o in history.of("LIST_OFFSETS"):
            pairs[o.partition].append((o.ended, o.leo))
        for o in history.of("STABLE"):
            pairs[o.partition].append((o.ended, o.end))
        for o in history.of("PUBLISH"):
            pairs[o.partition].append((o.ended, o.offset + 1))
        for o in history.of(*READS):
            if o.seen:
                pairs[o.partition].append((o.ended, o.seen[-1].offset + 1))
    return collections.defaultdict(lambda: Latest(()), {p: Latest(found) for p, found in pairs.items()})


def limits(history):
    """Partition -> Later: a length that its log had not passed."""
    pairs = collections.defaultdict(list)
    for o in history.of("LIST_OFFSETS"):
        pairs[o.partition].append((o.began, o.leo))
    for o in history.of("STABLE"):
        pairs[o.partition].append((o.began, o.end))
    return collections.defaultdict(lambda: Later(()), {p: Later(found) for p, found in pairs.items()})


def check_nothing_held_back(history, final, known):
    """An empty answer means that nothing readable is there, of a log that is known to be that long."""
    for o in history.of("CONSUME"):
        length = known[o.partition].before(o.began)
        if o.seen or length is None:
            continue
        if o.isolation == UNCOMMITTED:
            assert length <= o.start, f"of {length} records nothing was shown: {o}"
        else:
            missed = final.visible_in(o.partition, o.start, final.stable[o.partition][length])
            assert not missed, f"{missed[:3]} could be read, and were not shown: {o}"


# ---- T1 to T11 ----------------------------------------------------------------------------------------


def check_atomic(history, final):
    """T1: when a part of a transaction is known, all of it can be read from then on: records and offsets."""
    check_nothing_held_back(history, final, lengths(history, final, "commits"))
    known = known_commits(history, final)
    for key in known:
        assert final.state.get(key) == "committed", f"{key} was seen to be committed, and is not"
    moved = collections.defaultdict(list)
    for o, partition, offset in staged(history, final):
        if o.key in known:
            moved[partition].append((max(known[o.key], o.ended), offset))
    moved = {partition: Latest(pairs) for partition, pairs in moved.items()}
    for o in history.of("FETCH_OFFSET"):
        before = moved[o.partition].before(o.began) if o.partition in moved else None
        assert before is None or o.offset >= before, f"a committed transaction had moved it to {before}: {o}"


def check_only_committed(history, final):
    """T2."""
    for o in history.of(*READS):
        if o.isolation == COMMITTED:
            for e in o.seen:
                assert not e.marker and final.is_visible(e), f"{e} is not of a committed transaction: {o}"
    for partition, entries in final.committed.items():
        assert [e.offset for e in entries] == final.visible[partition], f"partition {partition} at the end"


def check_order(history, final):
    """T3: what was read is what the log holds, in order, and nothing was passed over."""
    for o in history.of(*READS):
        if not o.seen:
            continue
        log, end = final.log[o.partition], o.seen[-1].offset + 1
        assert all(e.offset < len(log) and log[e.offset] == e for e in o.seen), f"not what the log holds: {o}"
        expected = final.visible_in(o.partition, o.start, end) if o.isolation == COMMITTED else list(range(o.start, end))
        assert [e.offset for e in o.seen] == expected, f"out of order, twice, or passed over: {o}"
    check_nothing_held_back(history, final, lengths(history, final, "answers"))
    for o in history.of("PUBLISH"):
        log = final.log[o.partition]
        assert o.offset < len(log) and log[o.offset].payload == o.payload, f"acknowledged, and not there: {o}"


def check_stable_offset(history, final):
    """T4."""
    for operations in by("partition", history.of("LIST_OFFSETS")).values():
        for name in ("latest", "leo", "hwm"):
            check_never_falls(operations, lambda o: getattr(o, name), name)
    for o in history.of("LIST_OFFSETS"):
        assert o.latest <= o.hwm <= o.leo <= len(final.log[o.partition]), f"in the wrong order: {o}"
    for operations in by("partition", history.of("STABLE")).values():
        for name in ("stable", "end"):
            check_never_falls(operations, lambda o: getattr(o, name), name)
    for o in history.of("STABLE"):
        assert o.stable <= o.end and o.stable == final.stable[o.partition][o.end], f"not what the log says: {o}"
    answered, limit = lengths(history, final, "answers"), limits(history)
    for o in history.of("LIST_OFFSETS"):
        before = answered[o.partition].before(o.began)
        assert before is None or o.leo >= before, f"the log had {before} records: {o}"
    for o in history.of(*READS):
        length = limit[o.partition].after(o.ended)
        if o.isolation == COMMITTED and o.seen and length is not None:
            end = final.stable[o.partition][length]
            assert o.seen[-1].offset < end, f"at or beyond {end}, of a log of at most {length}: {o}"


def check_markers(history, final):
    """T5, in the log; and nobody saw a marker before there was a reason for one."""
    for partition, entries in final.log.items():
        over = set()
        for e in entries:
            assert not e.id or key_of(e) not in over, f"{e} is behind the marker of its transaction"
            if e.marker:
                over.add(key_of(e))
        undecided = {key for p, key in final.data if p == partition} ^ over
        assert not undecided, f"partition {partition}: markers and data do not match: {sorted(undecided)[:3]}"
    kinds = collections.defaultdict(set)
    for entries in final.log.values():
        for e in entries:
            if e.marker:
                kinds[key_of(e)].add(e.marker)
    for key, found in kinds.items():
        assert len(found) == 1, f"markers of both kinds: {key}"
        row = final.rows.get(key)
        assert row is None or row[0] == STATES[next(iter(found))], f"{key} is {row[0]}, its markers say {found}"
    reasons = first_reasons(history)
    for o in history.of(*READS):
        for e in o.seen:
            if e.marker:
                reason = reasons[e.marker].get(key_of(e))
                assert reason is not None and reason < o.ended, f"a marker without a reason: {e} in {o}"


def first_reasons(history):
    """"commit" and "abort" -> transaction -> when somebody first tried to bring that about."""
    found = {"commit": {}, "abort": {}}

    def reason(kind, key, moment):
        found[kind][key] = min(moment, found[kind].get(key, moment))

    for o in history.of("END_TXN", outcome=None):
        reason(o.result, o.key, o.began)
    inits = by("id", history.of("INIT_PRODUCER_ID", outcome=None))
    for o in history.of("BEGIN_TXN", outcome=None):
        reason("abort", o.key, o.began + o.timeout)
        for i in inits[o.id]:
            if i.outcome is None or (i.outcome == "OK" and i.epoch > o.epoch):
                reason("abort", o.key, i.began)
    return found


def check_requests(history, final):
    """T6: one record for each request that was accepted, however often it was sent, and none for what was refused."""
    requests, stored = collections.defaultdict(list), collections.defaultdict(list)
    for o in history.of("TXN_PUBLISH", outcome=None):
        requests[o.key, o.payload].append(o)
    for (partition, key), entries in final.data.items():
        for e in entries:
            stored[key, e.payload].append(partition)
        numbers = [e.number for e in entries]
        assert numbers == list(range(1, len(entries) + 1)), f"{key} in {partition}: stored sequences {numbers}"
    for request, partitions in stored.items():
        assert len(partitions) == 1, f"{request} has {len(partitions)} records"
        assert any(o.outcome in ("OK", None) for o in requests[request]), f"{request} is stored, and was refused"
    for request, operations in requests.items():
        for o in operations:
            if o.outcome == "OK":
                assert stored.get(request) == [o.partition], f"accepted, and stored in {stored.get(request)}: {o}"


def check_epochs(history, final):
    """T7."""
    limit = limits(history)
    inits = by("id", history.of("INIT_PRODUCER_ID"))
    latest = {id: Latest((o.ended, o.epoch) for o in operations) for id, operations in inits.items()}
    for operations in inits.values():
        assert len({o.epoch for o in operations}) == len(operations), f"an epoch was given twice: {operations[0].id}"
        for o in operations:
            before = latest[o.id].before(o.began)
            assert before is None or o.epoch > before, f"after epoch {before}: {o}"
    for o in history.of(*STEPS):
        before = latest[o.id].before(o.began) if o.id in latest else None
        assert before is None or o.epoch >= before, f"after epoch {before}: {o}"
    for partition, entries in final.log.items():
        current = {}
        for e in entries:
            if e.id:
                assert e.epoch >= current.get(e.id, e.epoch), f"behind a record of epoch {current[e.id]}: {e}"
                current[e.id] = e.epoch
        for id, operations in inits.items():
            offsets = collections.defaultdict(int)  # epoch -> the end of its records
            for e in entries:
                if e.id == id:
                    offsets[e.epoch] = e.offset + 1
            ends = sorted(offsets.items())
            for o in operations:
                length = limit[partition].after(o.ended)
                older = bisect.bisect_left(ends, (o.epoch, 0)) - 1
                assert length is None or older < 0 or ends[older][1] <= length, f"epoch {ends[older][0]} went on after {o}"


def check_outcomes(history, final):
    """T8: what was told of a transaction is one outcome, with the same counts, and agrees with the log."""
    texts, counted = collections.defaultdict(set), collections.Counter()
    for (_, key), entries in final.data.items():
        counted[key] += len(entries)
    for key, state, o in told(history):
        assert final.state.get(key, state) == state, f"{key} is {final.state[key]} at the end: {o}"
        if o.kind == "END_TXN" and o.outcome == "OK":
            texts[key].add(o.text)
    offers = by("key", history.of("SEND_OFFSETS_TO_TXN", outcome=None))
    states = collections.defaultdict(set)
    for key, state, _ in told(history):
        states[key].add(state)
    for key, found in states.items():
        assert len(found) == 1, f"{key}: both outcomes were told"
    for key, answers in texts.items():
        assert len(answers) == 1, f"{key}: {answers}"
        words = re.fullmatch(r"OK transactional_id=(\S+) state=(\S+) messages=(\d+) offsets=(\d+)", *answers)
        assert words and words[1] == key[0], answers
        messages, offsets = int(words[3]), int(words[4])
        assert messages == counted[key], f"{key} has {counted[key]} records: {answers}"
        surely = {p for o in offers[key] if o.outcome == "OK" for p in o.offsets}
        perhaps = {p for o in offers[key] if o.outcome in ("OK", None) for p in o.offsets}
        assert len(surely) <= offsets <= len(perhaps), f"{key} has the offsets of {perhaps}: {answers}"
        row = final.rows.get(key)
        # One without a record may have been forgotten.
        assert row == (words[2], messages, offsets) or (row is None and not messages), f"{row} against {answers}"


def check_exactly_once(history, final):
    """T9: every input is in the output once, and what was committed was its owner's."""
    names = [e.payload.split(b" ")[0] for entries in final.committed.values() for e in entries if e.id]
    counts = collections.Counter(n.decode() for n in names if n != b"ghost")
    twice = [name for name, count in counts.items() if count > 1]
    assert not twice, f"{len(twice)} inputs are there more than once: {twice[:5]}"
    assert not final.inputs - set(counts), f"inputs are missing: {sorted(final.inputs - set(counts))[:5]}"
    assert not set(counts) - final.inputs, f"outputs of no input: {sorted(set(counts) - final.inputs)[:5]}"
    assigned = {(o.member, o.generation): o.assigned for o in history.of("JOIN_GROUP", "SYNC_GROUP")}
    known, first_try = known_commits(history, final), first_reasons(history)["commit"]
    taken = staged(history, final)
    group = Latest([(o.ended, o.current or o.generation) for o in history.operations if o.current or o.generation is not None
                    and o.outcome == "OK"] + [(known[o.key], o.generation) for o, _, _ in taken if o.key in known])
    owners = {}
    for o, partition, offset in taken:
        mine = assigned.get((o.member, o.generation))
        assert mine is None or partition in mine, f"not an owner: {o}"
        owner = owners.setdefault((partition, o.generation), o.member)
        assert owner == o.member, f"two owners of one generation: {owner} and {o}"
        assert offset <= final.offsets[partition], f"at the end it is at {final.offsets[partition]}: {o}"
        for done, moment in (("staged", o.began), ("committed", first_try[o.key])):
            before = group.before(moment)
            assert before is None or o.generation >= before, f"{done} after generation {before} had begun: {o}"


def check_deadlines(history, final, slack):
    """T10: what is too old is refused, shown as over, and gone from the readers' way, at the latest after the sweep."""
    begun, ends, epoch = {}, {}, epoch_at(history)
    for o in history.of("BEGIN_TXN"):
        begun[o.key] = (o.began, o.ended + o.timeout)
    for o in history.of("END_TXN", outcome=None):
        ends[o.key] = min(o.began, ends.get(o.key, o.began))
    for o in history.of("TXN_PUBLISH", "SEND_OFFSETS_TO_TXN"):
        assert o.began <= begun[o.key][1], f"{o.began - begun[o.key][1]:.2f} s after its deadline: {o}"
    for key, state in final.state.items():
        if state == "committed" and key in begun:
            assert ends[key] <= begun[key][1], f"{key} was committed {ends[key] - begun[key][1]:.2f} s after its deadline"
    for o in history.of("TXN_STATUS"):
        begin = begun.get((o.id, epoch(o)))
        assert o.state != "open" or begin is None or o.began <= begin[1], f"{o.began - begin[1]:.2f} s too old: {o}"
    for o in history.of("STABLE"):
        if o.stable < o.end:
            begin = begun.get(key_of(final.log[o.partition][o.stable]))
            late = begin and o.began - begin[1]
            assert not begin or late <= SWEEP_SECONDS + slack, f"held back {late:.1f} s after a deadline: {o}"
    for partition, stable in final.stable.items():
        assert stable[-1] == len(final.log[partition]), f"partition {partition} is held back at {stable[-1]}"
    unfinished = [key for key, row in final.rows.items() if row[0] not in STATES.values()]
    assert not unfinished, f"undecided: {unfinished[:3]}"


def check_preparations(history, final):
    """T11."""
    epoch = epoch_at(history)
    for o in history.of("TXN_STATUS", "END_TXN", outcome=None):
        if o.state in ("prepare_commit", "prepare_abort"):
            key = o.key if o.kind == "END_TXN" else (o.id, epoch(o))
            wanted = STATES[o.state.removeprefix("prepare_")]
            assert key[1] is None or final.state.get(key) == wanted, f"{key} is {final.state.get(key)}: {o}"


def rules(history, final, slack):
    """(name, check) of each."""
    both = lambda check, *more: functools.partial(check, history, final, *more)
    return [
        ("T1 transactions are seen whole", both(check_atomic)),
        ("T2 only what was committed is seen", both(check_only_committed)),
        ("T3 in order, once, and for good", both(check_order)),
        ("T4 nothing at or beyond the stable offset", both(check_stable_offset)),
        ("T5 markers", both(check_markers)),
        ("T6 one record a request", both(check_requests)),
        ("T7 epochs rise and fence", both(check_epochs)),
        ("T8 one outcome", both(check_outcomes)),
        ("T9 every input is in the output exactly once", both(check_exactly_once)),
        ("T10 deadlines", both(check_deadlines, slack)),
        ("T11 what is prepared is done", both(check_preparations)),
    ]
