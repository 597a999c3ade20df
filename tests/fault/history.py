"""What clients did and were told.

A history is a list of operations in the order in which they ended. It knows nothing of how they were made. "Before"
means that one had ended when the other began; operations that overlap may have happened in either order, and one
without an answer may have happened or not.
"""

import bisect
import collections
import threading
import time
import types


class Operation:
    """One request. `outcome` is "OK", an error code, or None when nobody knows; `trouble` is then what was heard.

    The facts below are those that more than one kind of operation has; None is "not stated".
    """

    outcome = trouble = began = ended = None
    group = member = generation = current = None
    id = epoch = result = state = text = None
    partition = offset = isolation = start = payload = None
    offsets = types.MappingProxyType({})
    seen = ()

    def __init__(self, kind, **facts):
        self.kind, self.began = kind, time.monotonic()
        self.__dict__.update(facts)

    @property
    def key(self):
        """The transaction."""
        return self.id, self.epoch

    def __repr__(self):
        facts = {k: v for k, v in self.__dict__.items() if v not in (None, {}, ()) and k != "kind"}
        return f"{self.kind} {str(facts)[:600]}"


class History:
    def __init__(self, operations=()):
        self.operations, self.lock = list(operations), threading.Lock()

    def end(self, operation, outcome, **facts):
        operation.__dict__.update(facts)
        with self.lock:
            operation.outcome, operation.ended = outcome, time.monotonic()
            self.operations.append(operation)
        return operation

    def of(self, *kinds, outcome="OK"):
        """Operations of these kinds with this outcome, or with any when it is None."""
        return [o for o in self.operations if o.kind in kinds and (outcome is None or o.outcome == outcome)]


class Latest:
    """The greatest value among the operations that had ended by a given moment, from (ended, value) pairs."""

    def __init__(self, pairs):
        self.ends, self.best = [], []
        for ended, value in sorted(pairs):
            self.ends.append(ended)
            self.best.append(max(value, self.best[-1]) if self.best else value)

    def before(self, moment):
        place = bisect.bisect_left(self.ends, moment)
        return self.best[place - 1] if place else None


class Later:
    """The least value among the operations that began after a given moment, from (began, value) pairs."""

    def __init__(self, pairs):
        self.mirror = Latest((-began, -value) for began, value in pairs)

    def after(self, moment):
        found = self.mirror.before(-moment)
        return None if found is None else -found


def by(attribute, operations):
    found = collections.defaultdict(list)
    for operation in operations:
        found[getattr(operation, attribute)].append(operation)
    return found


def check_never_falls(operations, value, what):
    """A value that an operation was told is at least what any operation before it was told."""
    seen = Latest((o.ended, value(o)) for o in operations)
    for o in operations:
        before = seen.before(o.began)
        assert before is None or value(o) >= before, f"{what} fell from {before}: {o}"
