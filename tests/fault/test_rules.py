"""The checkers' own test: each rule accepts a faultless history and objects to one that was doctored against it."""

import pytest

import group_rules as groups
import transaction_rules as transactions
from history import History, Operation
from transaction_rules import COMMITTED, UNCOMMITTED, Entry, Final


class Story:
    """A history in the making: operations one after another, a second each unless told otherwise."""

    def __init__(self):
        self.operations, self.named, self.now = [], {}, 0.0

    def tell(self, kind, name=None, outcome="OK", at=None, until=None, **facts):
        """`name` is for whoever doctors it."""
        self.now = at if at is not None else self.now + 1
        operation = Operation(kind, outcome=outcome, **facts)
        operation.began, operation.ended = self.now, until if until is not None else self.now + 0.5
        self.operations.append(operation)
        if name:
            self.named[name] = operation
        return operation

    def change(self, name, **facts):
        self.named[name].__dict__.update(facts)

    def history(self):
        return History(sorted(self.operations, key=lambda o: o.ended))


# ---- groups and offsets -----------------------------------------------------------------------------------

EXPANSION = [("t", 0), ("t", 1), ("t", 2)]
ALL = {"a-1": EXPANSION}
BOTH = {"a-1": EXPANSION[:2], "b-2": EXPANSION[2:]}
P0, P1, P2 = EXPANSION
CALM, BOUND, TIMEOUT = 100.0, 8.0, 3.0


def group_story():
    """a joins and commits, b joins, a goes on, b falls silent, is removed, and cannot come back."""
    story = Story()

    def tell(kind, name=None, **facts):
        return story.tell(kind, name, group="g", **facts)

    tell("JOIN_GROUP", "join a", member="a-1", generation=1, assigned=EXPANSION)
    tell("GROUP_STATUS", "status 1", generation=1, assignments=ALL)
    tell("COMMIT_OFFSET", "commit 5", member="a-1", generation=1, offsets={P2: 5})
    tell("FETCH_OFFSET", "fetch 5", offsets={P2: 5})
    tell("COMMIT_OFFSET", "regression", outcome="offset_regression", member="a-1", generation=1, offsets={P2: 3})
    tell("JOIN_GROUP", "join b", member="b-2", generation=2, assigned=EXPANSION[2:])
    tell("COMMIT_OFFSET", "fenced", outcome="GEN_MISMATCH", current=2, member="a-1", generation=1, offsets={P2: 9})
    tell("SYNC_GROUP", "sync a", member="a-1", generation=2, assigned=EXPANSION[:2])
    tell("GROUP_STATUS", "status 2", generation=2, assignments=BOTH)
    tell("BATCH_COMMIT", "batch", member="a-1", generation=2, offsets={P0: 2, P1: 2})
    tell("COMMIT_OFFSET", "commit 7", member="b-2", generation=2, offsets={P2: 7})
    tell("PAIR", "pair", offsets={0: 2, 1: 2})
    tell("HEARTBEAT", "beat a", member="a-1", generation=2)
    tell("HEARTBEAT", "expired", outcome="member_not_found", member="b-2", generation=2)
    tell("GROUP_STATUS", "status 3", generation=3, assignments=ALL)
    tell("FETCH_OFFSET", "fetch 7", offsets={P2: 7})
    tell("LEAVE_GROUP", "leave a", member="a-1")
    tell("GROUP_STATUS", "last status", at=CALM + 20, generation=4, assignments={})
    return story


GROUP_RULES = {
    "G1": lambda h: groups.check_generations_never_fall(h),
    "G2": lambda h: groups.check_assignments(h, {"g": EXPANSION}),
    "G3": lambda h: groups.check_one_owner(h),
    "G4": lambda h: groups.check_gone_is_gone(h),
    "G5": lambda h: groups.check_steps(h, {"g": 4}),
    "G6 lively": lambda h: groups.check_the_lively_stay(h, TIMEOUT),
    "G6 silent": lambda h: groups.check_the_silent_go(h, CALM, BOUND),
    "G7": lambda h: groups.check_groups_stay(h),
    "O1 O2": lambda h: groups.check_offsets_never_fall(h),
    "O2 committed": lambda h: groups.check_offsets_were_committed(h),
    "O3": lambda h: groups.check_batches_are_whole(h),
    "O4": lambda h: groups.check_regressions(h),
}
HEARTBEAT_FROM_THE_DEAD = dict(group="g", member="b-2", generation=3)
GROUP_FORGERIES = [
    ("G1", "fell from 2", lambda s: s.change("status 3", generation=1)),
    ("G1", "fell from 3", lambda s: s.tell("COMMIT_OFFSET", outcome="GEN_MISMATCH", at=40, group="g", current=2)),
    ("G2", "not the formula", lambda s: s.change("status 2", assignments={"a-1": [P0], "b-2": [P1, P2]})),
    ("G2", "two assignments", lambda s: s.change("status 2", generation=1)),
    ("G2", "but the generation has", lambda s: s.change("join b", assigned=[P1, P2])),
    ("G2", "but the generation has", lambda s: s.change("sync a", assigned=EXPANSION)),
    ("G3", "two owners", lambda s: s.change("commit 7", generation=1)),
    ("G3", "fell from 2", lambda s: s.tell("COMMIT_OFFSET", group="g", member="a-1", generation=1, offsets={P2: 8})),
    ("G4", "after it was gone", lambda s: s.tell("COMMIT_OFFSET", group="g", member="a-1", generation=4, offsets={P0: 9})),
    ("G4", "after it was gone", lambda s: s.tell("HEARTBEAT", at=40, **HEARTBEAT_FROM_THE_DEAD)),
    ("G4", "after it was gone", lambda s: s.tell("SYNC_GROUP", at=15, group="g", member="b-2", generation=3)),
    ("G5", "5 steps", lambda s: [s.tell("JOIN_GROUP", group="g", member=m, generation=5, assigned=[]) for m in "cd"]),
    ("G5", "2 steps", lambda s: s.operations.remove(s.named["join b"])),
    ("G6 lively", "expired", lambda s: s.tell("HEARTBEAT", at=13, group="g", member="b-2", generation=2)),
    ("G6 silent", "still there", lambda s: s.change("last status", assignments=ALL)),
    ("G7", "was not found", lambda s: s.tell("FETCH_OFFSET", outcome="group_not_found", group="g")),
    ("O1 O2", "was there before", lambda s: s.change("fetch 7", offsets={P2: 6})),
    ("O1 O2", "was there before", lambda s: s.tell("FETCH_OFFSET", group="g", offsets={P0: None})),
    ("O2 committed", "nobody committed", lambda s: s.change("fetch 7", offsets={P2: 8})),
    ("O2 committed", "nobody committed", lambda s: s.change("fetch 7", offsets={P2: 9})),
    ("O3", "a part of a batch", lambda s: s.change("pair", offsets={0: 2, 1: 1})),
    ("O4", "nothing larger", lambda s: s.change("regression", offsets={P2: 5})),
    ("O4", "nothing larger", lambda s: s.change("regression", offsets={P2: 8})),
]


@pytest.mark.parametrize("rule", GROUP_RULES)
def test_a_faultless_history_of_a_group_is_accepted(rule):
    GROUP_RULES[rule](group_story().history())


@pytest.mark.parametrize("rule, objection, forge", GROUP_FORGERIES)
def test_a_doctored_history_of_a_group_is_objected_to(rule, objection, forge):
    story = group_story()
    forge(story)
    with pytest.raises(AssertionError, match=objection):
        GROUP_RULES[rule](story.history())


# ---- transactions -----------------------------------------------------------------------------------------


class Scene(Story):
    """A story of transactions, and the logs at its end."""

    def __init__(self):
        super().__init__()
        self.log, self.committed = {0: [], 1: []}, {0: [], 1: []}
        self.rows, self.offsets, self.inputs = {}, {0: 0, 1: 0}, set()

    def append(self, partition, payload, id="", epoch=0, number=0, marker=""):
        self.log[partition].append(Entry(len(self.log[partition]), payload, id, epoch, number, marker))

    def see(self, kind, partition, isolation, start, offsets, name=None, **times):
        self.tell(kind, name, partition=partition, isolation=isolation, start=start,
                  seen=[self.log[partition][offset] for offset in offsets], **times)

    def bounds(self, partition, name=None, **times):
        end = len(self.log[partition])
        self.tell("LIST_OFFSETS", name, partition=partition, earliest=0, latest=end, leo=end, hwm=end, **times)

    def stable(self, partition, stable, name=None, **times):
        self.tell("STABLE", name, partition=partition, stable=stable, end=len(self.log[partition]), **times)

    def final(self):
        return Final(self.log, self.committed, self.rows, self.offsets, self.inputs)


def ended(state, messages, offsets):
    return dict(state=state, text=f"OK transactional_id=w state={state} messages={messages} offsets={offsets}")


def scene():
    """Epoch 1 commits two inputs to two partitions, epoch 2 aborts one, epoch 3 commits it; readers look on."""
    s = Scene()
    s.inputs = {"0-1", "0-2", "1-1"}
    s.tell("JOIN_GROUP", "join", member="m-1", generation=1, assigned=[0, 1])
    s.tell("INIT_PRODUCER_ID", "init 1", id="w", epoch=1)
    s.tell("TXN_STATUS", "status ready", id="w", state="aborted")
    s.tell("BEGIN_TXN", "begin 1", id="w", epoch=1, timeout=20.0)
    s.append(0, b"0-1 w 1 1", "w", 1, 1)
    s.tell("TXN_PUBLISH", "publish 1 1", id="w", epoch=1, partition=0, payload=b"0-1 w 1 1")
    s.append(1, b"0-2 w 1 2", "w", 1, 1)
    s.tell("TXN_PUBLISH", "publish 1 2", id="w", epoch=1, partition=1, payload=b"0-2 w 1 2")
    s.append(0, b"0-1")
    s.tell("PUBLISH", "plain", partition=0, offset=1, payload=b"0-1")
    s.bounds(0, "bounds open")
    s.stable(0, 0, "stable open")
    s.see("CONSUME", 0, COMMITTED, 0, [], "read open")
    s.see("CONSUME", 0, UNCOMMITTED, 0, [0, 1], "read all open")
    s.bounds(0, "bounds still open")
    s.tell("SEND_OFFSETS_TO_TXN", "stage 1", id="w", epoch=1, member="m-1", generation=1, offsets={0: 2})
    s.tell("TXN_STATUS", "status open", id="w", state="open")
    s.tell("FETCH_OFFSET", "fetch before", partition=0, offset=0)
    s.append(0, b"", "w", 1, 1, "commit")
    s.append(1, b"", "w", 1, 1, "commit")
    s.tell("END_TXN", "end 1", id="w", epoch=1, result="commit", **ended("committed", 2, 1))
    s.tell("END_TXN", "end 1 again", id="w", epoch=1, result="commit", **ended("committed", 2, 1))
    s.tell("TXN_STATUS", "status committed", id="w", state="committed")
    s.tell("FETCH_OFFSET", "fetch after", partition=0, offset=2)
    s.see("CONSUME", 1, COMMITTED, 0, [0], "read 1")
    s.see("CONSUME", 1, COMMITTED, 1, [], "read 1 end")
    s.see("STREAM", 0, COMMITTED, 0, [0, 1], "stream")
    s.see("STREAM", 0, UNCOMMITTED, 0, [0, 1, 2], "stream all")
    s.tell("INIT_PRODUCER_ID", "init 2", id="w", epoch=2)
    s.bounds(0)
    s.tell("BEGIN_TXN", "begin 2", id="w", epoch=2, timeout=20.0)
    s.append(0, b"1-1 w 2 1", "w", 2, 1)
    s.tell("TXN_PUBLISH", "publish 2", id="w", epoch=2, partition=0, payload=b"1-1 w 2 1")
    s.tell("TXN_PUBLISH", "refused", outcome="transaction_publish_failed", id="w", epoch=2, payload=b"refused")
    s.tell("SEND_OFFSETS_TO_TXN", "stage 2", id="w", epoch=2, member="m-1", generation=1, offsets={1: 1})
    s.append(0, b"", "w", 2, 1, "abort")
    s.tell("END_TXN", "end 2", id="w", epoch=2, result="abort", **ended("aborted", 1, 1))
    s.tell("END_TXN", "end 2 otherwise", outcome="transaction_aborted", id="w", epoch=2, result="commit")
    s.bounds(0, "bounds aborted")
    s.stable(0, 5, "stable aborted")
    s.see("CONSUME", 0, COMMITTED, 2, [], "read aborted")
    s.see("CONSUME", 0, UNCOMMITTED, 0, [0, 1, 2, 3, 4], "read all aborted")
    s.tell("INIT_PRODUCER_ID", "init 3", id="w", epoch=3)
    s.bounds(0)
    s.tell("BEGIN_TXN", "begin 3", id="w", epoch=3, timeout=20.0)
    s.append(0, b"1-1 w 3 1", "w", 3, 1)
    s.tell("TXN_PUBLISH", "publish 3", id="w", epoch=3, partition=0, payload=b"1-1 w 3 1")
    s.tell("SEND_OFFSETS_TO_TXN", "stage 3", id="w", epoch=3, member="m-1", generation=1, offsets={1: 1})
    s.append(0, b"", "w", 3, 1, "commit")
    s.tell("END_TXN", "end 3", id="w", epoch=3, result="commit", **ended("committed", 1, 1))
    s.see("CONSUME", 0, COMMITTED, 0, [0, 1, 5], "read last")
    s.see("CONSUME", 0, COMMITTED, 6, [], "read last end")
    s.bounds(0, "bounds last")
    s.rows = {("w", 1): ("committed", 2, 1), ("w", 2): ("aborted", 1, 1), ("w", 3): ("committed", 1, 1)}
    s.committed = {0: [s.log[0][n] for n in (0, 1, 5)], 1: [s.log[1][0]]}
    s.offsets = {0: 2, 1: 1}
    return s


def replace(s, partition, offset, **facts):
    """Another record in the log than everybody was shown."""
    s.log[partition][offset] = s.log[partition][offset]._replace(**facts)


def insert(s, partition, offset, *entry):
    """Something more in the log, at a place of which nobody was shown anything."""
    entries = s.log[partition]
    entries.insert(offset, Entry(offset, *entry))
    entries[offset + 1:] = [e._replace(offset=e.offset + 1) for e in entries[offset + 1:]]


def read(s, partition, isolation, start, offsets, **times):
    s.see("CONSUME", partition, isolation, start, offsets, **times)


FORGERIES = [
    ("T1", "were not shown", lambda s: s.change("read 1 end", start=0)),
    ("T1", "were not shown", lambda s: read(s, 0, COMMITTED, 0, [], at=s.named["stream"].ended + 0.1, until=30)),
    ("T1", "was seen to be committed", lambda s: s.change("read 1", seen=[s.log[0][3]])),
    ("T1", "had moved it to 2", lambda s: s.change("fetch after", offset=1)),
    ("T1", "had moved it to 1", lambda s: s.tell("FETCH_OFFSET", partition=1, offset=0)),
    ("T2", "not of a committed", lambda s: read(s, 0, COMMITTED, 3, [3])),
    ("T2", "not of a committed", lambda s: read(s, 0, COMMITTED, 2, [2])),
    ("T2", "partition 0 at the end", lambda s: s.committed[0].insert(2, s.log[0][3])),
    ("T2", "partition 1 at the end", lambda s: s.committed[1].clear()),
    ("T3", "not what the log holds", lambda s: replace(s, 0, 1, payload=b"other")),
    ("T3", "passed over", lambda s: s.change("read last", seen=[s.log[0][0], s.log[0][5]])),
    ("T3", "twice", lambda s: s.change("read 1", seen=[s.log[1][0]] * 2)),
    ("T3", "out of order", lambda s: s.change("stream", seen=[s.log[0][1], s.log[0][0]])),
    ("T3", "passed over", lambda s: s.change("stream all", seen=[s.log[0][0], s.log[0][2]])),
    ("T3", "were not shown", lambda s: read(s, 0, COMMITTED, 5, [])),
    ("T3", "nothing was shown", lambda s: read(s, 0, UNCOMMITTED, 5, [])),
    ("T3", "acknowledged, and not there", lambda s: s.change("plain", payload=b"another")),
    ("T4", "at or beyond 0", lambda s: s.change("read open", seen=[s.log[0][0]])),
    ("T4", "at or beyond 0", lambda s: s.change("read open", seen=[s.log[0][1]])),
    ("T4", "the log had 3 records", lambda s: s.change("read all open", seen=s.log[0][:3])),
    ("T4", "not what the log says", lambda s: s.change("stable open", stable=1)),
    ("T4", "stable fell from 5", lambda s: s.tell("STABLE", partition=0, stable=4, end=6)),
    ("T4", "not what the log says", lambda s: s.change("stable aborted", stable=6, end=5)),
    ("T4", "leo fell from 7", lambda s: s.tell("LIST_OFFSETS", partition=0, latest=7, hwm=7, leo=6)),
    ("T4", "latest fell from 7", lambda s: s.tell("LIST_OFFSETS", partition=0, latest=6, hwm=7, leo=7)),
    ("T4", "in the wrong order", lambda s: s.change("bounds aborted", hwm=4)),
    ("T4", "the log had 2 records", lambda s: s.change("bounds open", latest=1, hwm=1, leo=1)),
    ("T5", "behind the marker", lambda s: insert(s, 1, 2, b"", "w", 1, 2, "commit")),
    ("T5", "behind the marker", lambda s: insert(s, 1, 2, b"late", "w", 1, 2, "")),
    ("T5", "do not match", lambda s: s.log[1].pop()),
    ("T5", "do not match", lambda s: insert(s, 1, 2, b"", "w", 2, 1, "abort")),
    ("T5", "both kinds", lambda s: replace(s, 1, 1, marker="abort")),
    ("T5", "its markers say", lambda s: s.rows.update({("w", 2): ("committed", 1, 1)})),
    ("T5", "without a reason", lambda s: s.change("stream all", began=8.0, ended=8.5)),
    ("T5", "without a reason", lambda s: s.change("end 1", began=28.0, ended=29.0, result="commit")
     or s.change("end 1 again", began=28.0, ended=29.0)),
    ("T6", "has 2 records", lambda s: insert(s, 1, 1, b"0-1 w 1 1", "w", 1, 2, "")),
    ("T6", "stored in None", lambda s: s.change("publish 3", payload=b"something else")
     or s.tell("TXN_PUBLISH", outcome=None, id="w", epoch=3, payload=b"1-1 w 3 1")),
    ("T6", "stored in", lambda s: s.change("publish 3", partition=1)),
    ("T6", "was refused", lambda s: s.change("publish 3", outcome="transaction_publish_failed")),
    ("T6", "stored sequences", lambda s: replace(s, 0, 5, number=2)),
    ("T7", "after epoch 2", lambda s: s.change("init 3", epoch=0)),
    ("T7", "given twice", lambda s: s.tell("INIT_PRODUCER_ID", id="w", epoch=3, at=39.2, until=60)),
    ("T7", "after epoch 3", lambda s: s.tell("TXN_PUBLISH", id="w", epoch=2, partition=0, payload=b"1-1 w 2 1")),
    ("T7", "after epoch 3", lambda s: s.tell("SEND_OFFSETS_TO_TXN", id="w", epoch=2, offsets={1: 1})),
    ("T7", "after epoch 3", lambda s: s.tell("END_TXN", id="w", epoch=2, result="abort", **ended("aborted", 1, 1))),
    ("T7", "behind a record of epoch 3", lambda s: insert(s, 0, 6, b"late", "w", 2, 2, "")),
    ("T7", "went on after", lambda s: insert(s, 0, 3, b"late", "w", 1, 2, "")),
    ("T8", "messages=3", lambda s: s.change("end 1 again", **ended("committed", 3, 1))),
    ("T8", "has 1 records", lambda s: s.change("end 3", **ended("committed", 0, 1))),
    ("T8", "has the offsets of", lambda s: s.change("end 3", **ended("committed", 1, 0))),
    ("T8", "against", lambda s: s.rows.update({("w", 2): ("aborted", 1, 7)})),
    ("T8", "is committed at the end", lambda s: s.change("status committed", state="aborted")),
    ("T8", "is aborted at the end", lambda s: s.change("end 2 otherwise", outcome="transaction_already_committed")),
    ("T8", "is aborted at the end", lambda s: s.change("end 2", **ended("committed", 1, 1))),
    ("T8", "both outcomes", lambda s: [s.tell("END_TXN", id="v", epoch=1, result=result, state=state, text="")
                                       for result, state in (("commit", "committed"), ("abort", "aborted"))]),
    ("T8", "transactional_id=v", lambda s: s.change("end 3", text="OK transactional_id=v state=committed messages=1 offsets=1")),
    ("T9", "more than once", lambda s: s.committed[0].append(s.committed[0][0])),
    ("T9", "missing", lambda s: s.inputs.add("1-2")),
    ("T9", "of no input", lambda s: s.inputs.remove("1-1")),
    ("T9", "not an owner", lambda s: s.change("join", assigned=[0])),
    ("T9", "two owners", lambda s: s.change("stage 3", member="m-2", offsets={0: 2})),
    ("T9", "staged after generation 1", lambda s: s.change("stage 3", generation=0, offsets={0: 2})),
    ("T9", "staged after generation 2", lambda s: s.tell("HEARTBEAT", outcome="GEN_MISMATCH", current=2, at=0.5)),
    ("T9", "committed after generation 2", lambda s: s.tell("JOIN_GROUP", member="m-2", generation=2, assigned=[],
                                                            at=s.named["end 3"].began - 0.9, until=s.named["end 3"].began - 0.1)),
    ("T9", "at the end it is at 1", lambda s: s.offsets.update({0: 1})),
    ("T10", "after its deadline", lambda s: s.change("begin 2", timeout=0.6)),
    ("T10", "was committed", lambda s: s.change("begin 3", timeout=2.2)),
    ("T10", "too old", lambda s: s.change("begin 1", timeout=9.0) or s.change("end 1", began=13.2)),
    ("T10", "held back", lambda s: s.tell("STABLE", partition=0, stable=0, end=2, at=100)),
    ("T10", "partition 0 is held back at 5", lambda s: s.log[0].pop()),
    ("T10", "undecided", lambda s: s.rows.update({("x", 1): ("open", 0, 0)})),
    ("T11", "is aborted", lambda s: s.tell("END_TXN", outcome="transaction_not_abortable", id="w", epoch=2,
                                           state="prepare_commit")),
    ("T11", "is committed", lambda s: s.change("status committed", state="prepare_abort")),
]


def rules_of(s):
    return {name.split()[0]: check for name, check in transactions.rules(s.history(), s.final(), slack=10.0)}


@pytest.mark.parametrize("rule", [f"T{n}" for n in range(1, 12)])
def test_a_faultless_history_of_transactions_is_accepted(rule):
    rules_of(scene())[rule]()


@pytest.mark.parametrize("rule, objection, forge", FORGERIES)
def test_a_doctored_history_of_transactions_is_objected_to(rule, objection, forge):
    s = scene()
    forge(s)
    with pytest.raises(AssertionError, match=objection):
        rules_of(s)[rule]()


def test_the_stable_offset_is_the_first_record_that_is_undecided():
    s = scene()
    assert s.final().stable == {0: [0, 0, 0, 3, 3, 5, 5, 7], 1: [0, 0, 2]}


def test_every_rule_has_a_forgery():
    assert {rule for rule, _, _ in FORGERIES} == set(rules_of(scene()))
    assert {rule for rule, _, _ in GROUP_FORGERIES} == set(GROUP_RULES)
