"""Many producers on two nodes while consumers read: each acknowledged record once, dense offsets, order kept."""

import threading

from crs2client import Batch, Record, encode_batch
from harness import SANITIZED, Load


def follow(node, topic, partition, stop, out):
    """Reads a partition while it is written; ends at an empty answer after `stop`."""
    with node.client() as client:
        while True:
            last_round = stop.is_set()
            records = client.consume(topic, partition, len(out), wait_ms=200).records
            assert [r.offset for r in records] == list(range(len(out), len(out) + len(records)))
            out += [r.payload for r in records]
            if last_round and not records:
                return


def run_load(nodes, topic, partitions, acks, records):
    stop, seen, threads = threading.Event(), [[] for _ in range(partitions)], []
    for partition in range(partitions):
        thread = threading.Thread(
            target=follow, args=(nodes[partition % len(nodes)], topic, partition, stop, seen[partition]))
        thread.start()
        threads.append(thread)
    with Load(nodes, topic, partitions, threads=16, acks=acks) as load:
        load.wait_for_acks(records, 60)
    stop.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert load.refusals == [] and load.wrong == []
    load.verify(nodes[0])
    for partition, payloads in enumerate(seen):
        mine = {name for name, (place, _) in load.acked.items() if place == partition}
        assert len(payloads) == len(set(payloads)) and set(payloads) == mine, "the consumer saw each record once"


def test_sixteen_producers_through_two_nodes(broker, second_broker, make_topic):
    topic = make_topic(partitions=4)
    run_load([broker, second_broker], topic, 4, "all", 1000 if SANITIZED else 6000)


def test_sixteen_producers_on_one_partition(broker, second_broker, make_topic):
    run_load([broker, second_broker], make_topic(), 1, "1", 500 if SANITIZED else 3000)


def test_a_node_killed_under_load_loses_nothing(start_broker, database):
    nodes = [start_broker(database) for _ in range(2)]
    with nodes[0].client() as client:
        client.call("CREATE", topic="t", partitions=2)
    with Load(nodes, "t", 2, threads=8) as load:
        load.wait_for_acks(300)
        nodes[1].kill()
        load.wait_for_acks(300)
    # Those on the killed node lost their connections, as they should; nothing else went wrong.
    assert load.wrong and not [p for p in load.wrong if hasattr(p, "code")]
    load.wrong.clear()
    load.verify(nodes[0])


def test_batches_in_flight_on_a_killed_node_are_sent_again_to_another_and_stored_once(start_broker, database):
    first, second = [start_broker(database) for _ in range(2)]
    sent, client = [], first.client()
    client.call("CREATE", topic="t", partitions=1)
    for number in range(20):
        records = [Record(b"%d" % n, producer_id=b"p", seq_num=n, epoch=1) for n in range(5 * number + 1, 5 * number + 6)]
        sent.append(Batch("t", records=records, acks="all", idempotent=True))
        client.send_payload("PUBLISH", encode_batch(sent[-1]))
    assert [client.recv().json["last_offset"] for _ in range(2)] == [4, 9]
    first.kill()
    with second.client() as again:
        for number, batch in enumerate(sent):
            assert again.publish_batch(batch)["last_offset"] == 5 * number + 4
        assert [r.payload for r in again.consume("t").records] == [b"%d" % n for n in range(1, 101)]
