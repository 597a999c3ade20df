"""A small CRS2 client for the tests, written from the protocol text alone.

It owns frames, the handshake, requests, batches and errors as a client sees them, and checks every rule on
what it receives. It must never import anything of the broker, or it would repeat its mistakes.
"""

import json
import socket
import struct
from dataclasses import dataclass, field

from crs2compress import CodecError, compress, crc32c, decompress

MAX_PAYLOAD = 64 << 20
NEGOTIATION_REQUEST, NEGOTIATION_RESPONSE, REQUEST, RESPONSE, STREAM = 1, 2, 3, 4, 5
NO_STATUS, OK, ERROR, STREAM_END = 0, 1, 2, 3
CLASSES = (
    "validation authorization routing availability conflict fencing not_found internal"
).split()

_NAMES = (
    "AUTH CREATE ALTER_TOPIC_CONFIG DELETE TRUNCATE LIST LIST_CLUSTER CLUSTER_STATUS ELECT_LEADER PUBLISH CONSUME "
    "STREAM HELP HEARTBEAT JOIN_GROUP SYNC_GROUP LEAVE_GROUP COMMIT_OFFSET BATCH_COMMIT REGISTER_GROUP "
    "GROUP_STATUS FETCH_OFFSET LIST_GROUPS LIST_OFFSETS DESCRIBE INIT_PRODUCER_ID BEGIN_TXN TXN_PUBLISH "
    "SEND_OFFSETS_TO_TXN END_TXN TXN_STATUS APPEND_STREAM READ_STREAM SAVE_SNAPSHOT READ_SNAPSHOT STREAM_VERSION "
    "REPLICATE_MESSAGE REPLICATE_SNAPSHOT LIST_SNAPSHOTS FETCH_SNAPSHOT CATCHUP_SNAPSHOTS FIND_COORDINATOR "
    "RAFT_APPLY METADATA INTERNAL_BATCH NEGOTIATE EXIT JOIN_CLUSTER LEAVE_CLUSTER HEARTBEAT_CLUSTER "
    "REPLICA_CATCHUP AGGREGATE_REPLAY_PROOF AGGREGATE_EVENT_RANGE_READ TXN_APPEND_STREAM BROWSE_MESSAGES "
    "READ_STREAM_HISTORY"
).split()
COMMANDS = {name: number for number, name in enumerate(_NAMES, 1)}
INTERNAL_COMMANDS = (
    "REPLICATE_MESSAGE REPLICATE_SNAPSHOT LIST_SNAPSHOTS FETCH_SNAPSHOT CATCHUP_SNAPSHOTS RAFT_APPLY "
    "INTERNAL_BATCH JOIN_CLUSTER LEAVE_CLUSTER HEARTBEAT_CLUSTER REPLICA_CATCHUP"
).split()


def _shifted_commands():
    # The second numbering puts TXN_APPEND_STREAM at 29 and moves what followed up by one.
    table = {name: n if n < 29 else n + 1 for name, n in COMMANDS.items() if n <= 53}
    table["TXN_APPEND_STREAM"] = 29
    return table


SHIFTED_COMMANDS = _shifted_commands()


class Closed(Exception):
    """The broker closed the connection between frames."""


class BrokerError(Exception):
    """An error answer."""

    def __init__(self, code, class_name, retryable, message, fields):
        super().__init__(f"{code} class={class_name} retryable={retryable} {fields} {message}")
        self.code, self.class_name, self.retryable = code, class_name, retryable
        self.message, self.fields = message, fields


def as_bytes(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return str(value).encode()


class Reader:
    """A cursor over received bytes that fails rather than read too far."""

    def __init__(self, data):
        self.data, self.position = data, 0

    def take(self, count):
        end = self.position + count
        if end > len(self.data):
            raise CodecError("cut short")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def number(self, layout):
        return struct.unpack(">" + layout, self.take(struct.calcsize(">" + layout)))[0]

    def bytes(self):
        return self.take(self.number("I"))

    def text(self):
        return self.bytes().decode()

    def finish(self):
        if self.position != len(self.data):
            raise CodecError("bytes left over")


def sized(value):
    value = as_bytes(value)
    return struct.pack(">I", len(value)) + value


# ---- frames ---------------------------------------------------------------------------------------

HEADER = struct.Struct(">4sHBBHHQIII")


@dataclass
class Frame:
    kind: int
    command: int
    status: int
    request_id: int
    payload: bytes
    compression: int = 0
    flags: int = 0

    @property
    def text(self):
        return self.payload.decode()

    @property
    def json(self):
        return json.loads(self.payload)

    @property
    def batch(self):
        return decode_batch(self.payload)

    @property
    def ok_fields(self):
        """The key=value words of an OK line, in order."""
        words = self.text.split(" ")
        assert words[0] == "OK", self.text
        return dict(word.split("=", 1) for word in words[1:])


def encode_frame(kind, command, status, request_id, payload, compression=0, **wrong):
    """`wrong` replaces header fields: magic, version, flags, encoded_length, decoded_length, crc."""
    body = payload if kind <= NEGOTIATION_RESPONSE else compress(compression, payload)
    flags = 0 if kind <= NEGOTIATION_RESPONSE else 1 | compression << 1
    return HEADER.pack(
        wrong.get("magic", b"CRS2"),
        wrong.get("version", 2),
        kind,
        wrong.get("flags", flags),
        command,
        status,
        request_id,
        wrong.get("encoded_length", len(body)),
        wrong.get("decoded_length", len(payload)),
        wrong.get("crc", crc32c(body)),
    ) + body


def check_header(header, compression):
    magic, version, kind, flags, command, status, request_id, encoded, decoded, crc = HEADER.unpack(header)
    negotiation = kind in (NEGOTIATION_REQUEST, NEGOTIATION_RESPONSE)
    if magic != b"CRS2" or version != 2 or not 1 <= kind <= 5:
        raise CodecError("magic, version or kind")
    if flags != (0 if negotiation else 1 | compression << 1):
        raise CodecError(f"flags {flags:02x}")
    if encoded > MAX_PAYLOAD or decoded > MAX_PAYLOAD:
        raise CodecError("too long")
    if (negotiation or compression == 0) and encoded != decoded:
        raise CodecError("lengths differ without compression")
    allowed = {1: (0,), 2: (1, 2), 3: (0,), 4: (1, 2), 5: (1, 2, 3)}[kind]
    if status not in allowed or (request_id == 0 and not negotiation):
        raise CodecError("status or request id")
    if negotiation and command not in (46, 47):
        raise CodecError("negotiation with another command")
    if not 1 <= command <= 56:
        raise CodecError("unknown command")
    return kind, flags, command, status, request_id, encoded, decoded, crc


def finish_frame(head, body, compression):
    kind, flags, command, status, request_id, _, decoded, crc = head
    if crc32c(body) != crc:
        raise CodecError("checksum")
    if kind > NEGOTIATION_RESPONSE:
        body = decompress(compression, body, decoded)
    return Frame(kind, command, status, request_id, body, compression, flags)


def decode_frame(data, compression=0):
    if len(data) < HEADER.size:
        raise CodecError("short header")
    head = check_header(data[: HEADER.size], compression)
    body = data[HEADER.size :]
    if len(body) != head[5]:
        raise CodecError("payload length")
    return finish_frame(head, body, compression)


def negotiation_payload(compressions=(0,), minimum=2, maximum=2):
    return struct.pack(">HHH", minimum, maximum, len(compressions)) + bytes(compressions)


# ---- requests and errors --------------------------------------------------------------------------


def encode_request(fields=(), positionals=()):
    pairs = list(fields.items() if isinstance(fields, dict) else fields)
    out = [b"CRQ2", struct.pack(">HH", 2, len(positionals))]
    out += [sized(word) for word in positionals]
    out.append(struct.pack(">H", len(pairs)))
    out += [sized(name) + sized(value) for name, value in pairs]
    return b"".join(out)


def decode_error(payload):
    reader = Reader(payload)
    code, class_number, retryable = reader.text(), reader.number("B"), reader.number("B")
    if not code or not 1 <= class_number <= 8 or retryable > 1:
        raise CodecError("error code, class or retryable")
    message = reader.text()
    fields = {}
    for _ in range(reader.number("H")):
        name, value = reader.text(), reader.bytes().decode(errors="surrogateescape")
        if not name or name in fields or name in ("class", "retryable"):
            raise CodecError("error field name")
        fields[name] = value
    reader.finish()
    return BrokerError(code, CLASSES[class_number - 1], bool(retryable), message, fields)


# ---- batches --------------------------------------------------------------------------------------


@dataclass
class Record:
    payload: bytes = b""
    offset: int = 0
    timestamp: int = 0
    producer_id: bytes = b""
    seq_num: int = 0
    epoch: int = 0
    key: bytes = b""
    event_type: bytes = b""
    schema_version: int = 0
    aggregate_version: int = 0
    metadata: bytes = b""
    transactional_id: bytes = b""
    transaction_state: bytes = b""
    transaction_marker: bytes = b""
    control_batch_type: bytes = b""
    control_batch_version: int = 0
    control_batch_coordinator_epoch: int = 0
    control_batch_key: bytes = None
    control_batch_value: bytes = None
    event_id: bytes = b""
    payload_digest: bytes = b""
    version: int = 2
    presence: int = 0
    topic: str = None
    partition: int = None


@dataclass
class Batch:
    topic: str
    partition: int = 0
    records: list = field(default_factory=list)
    acks: str = "1"
    idempotent: bool = False
    batch_start: int = 0
    batch_end: int = 0


# One entry a presence bit: the attributes, each with its layout ("s" is a counted byte string).
SECTIONS = (
    (("timestamp", "q"),),
    (("producer_id", "s"), ("seq_num", "Q"), ("epoch", "q")),
    (("key", "s"),),
    (("event_type", "s"),),
    (("schema_version", "I"),),
    (("aggregate_version", "Q"),),
    (("metadata", "s"),),
    (("transactional_id", "s"),),
    (("transaction_state", "s"),),
    (("transaction_marker", "s"),),
    (("control_batch_type", "s"),),
    (("control_batch_version", "h"),),
    (("control_batch_coordinator_epoch", "q"),),
    (("control_batch_key", "s"),),
    (("control_batch_value", "s"),),
    (("event_id", "s"),),
    (("payload_digest", "s"),),
)
ENUMERATED = {
    "transaction_state": (b"", b"open", b"committed", b"aborted"),
    "transaction_marker": (b"", b"commit", b"abort"),
    "control_batch_type": (b"", b"transaction"),
}


def presence_of(record):
    bits = 0
    for bit, section in enumerate(SECTIONS):
        values = [getattr(record, name) for name, _ in section]
        present = values[0] is not None if bit in (13, 14) else any(v not in (0, b"", "") for v in values)
        bits |= present << bit
    return bits


def encode_record(record, topic, partition):
    presence = record.presence or presence_of(record)
    version = 3 if presence >> 15 else record.version
    out = [
        struct.pack(">HQ", version, presence),
        sized(record.topic if record.topic is not None else topic),
        struct.pack(">iQ", partition if record.partition is None else record.partition, record.offset),
        sized(record.payload),
    ]
    for bit, section in enumerate(SECTIONS):
        if presence >> bit & 1:
            for name, layout in section:
                value = getattr(record, name)
                out.append(sized(value) if layout == "s" else struct.pack(">" + layout, value))
    return b"".join(out)


def encode_batch(batch):
    records = batch.records
    start = batch.batch_start or (records[0].seq_num if records else 0)
    end = batch.batch_end or (records[-1].seq_num if records else 0)
    out = [
        b"CBV2",
        struct.pack(">HH", 2, int(batch.idempotent)),
        sized(batch.topic),
        struct.pack(">i", batch.partition),
        sized(batch.acks),
        struct.pack(">QQI", start, end, len(records)),
    ]
    out += [sized(encode_record(record, batch.topic, batch.partition)) for record in records]
    return b"".join(out)


def _decode_record(data, topic, partition):
    reader = Reader(data)
    record = Record(version=reader.number("H"), presence=reader.number("Q"))
    known = {2: 0x7FFF, 3: 0x1FFFF}.get(record.version)
    if known is None or record.presence & ~known:
        raise CodecError("record version or presence")
    record.topic, record.partition = reader.text(), reader.number("i")
    if (record.topic, record.partition) != (topic, partition):
        raise CodecError("record of another topic or partition")
    record.offset, record.payload = reader.number("Q"), reader.bytes()
    for bit, section in enumerate(SECTIONS):
        if record.presence >> bit & 1:
            for name, layout in section:
                value = reader.bytes() if layout == "s" else reader.number(layout)
                if value not in ENUMERATED.get(name, (value,)):
                    raise CodecError(name)
                setattr(record, name, value)
    reader.finish()
    return record


def decode_batch(payload):
    reader = Reader(payload)
    if reader.take(4) != b"CBV2" or reader.number("H") != 2:
        raise CodecError("not a batch")
    flags = reader.number("H")
    if flags > 1:
        raise CodecError("batch flags")
    batch = Batch(reader.text(), reader.number("i"), [], reader.text(), bool(flags))
    if batch.acks not in ("", "0", "none", "1", "-1", "all"):
        raise CodecError("acks")
    batch.batch_start, batch.batch_end = reader.number("Q"), reader.number("Q")
    count = reader.number("I")
    if count > 100000 or count > (len(payload) - reader.position) // 34:
        raise CodecError("record count")
    batch.records = [_decode_record(reader.bytes(), batch.topic, batch.partition) for _ in range(count)]
    reader.finish()
    return batch


# ---- the connection -------------------------------------------------------------------------------


class Client:
    """One connection. `call` returns the answering frame or raises BrokerError."""

    def __init__(self, address, compressions=(0,), shifted=False, handshake=True, timeout=120.0, tls=None):
        """`tls` is an ssl.SSLContext."""
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host.strip("[]"), int(port)), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            try:
                self.sock = tls.wrap_socket(self.sock, server_hostname=host.strip("[]"))
            except BaseException:
                self.sock.close()
                raise
        self.commands = SHIFTED_COMMANDS if shifted else COMMANDS
        self.compression = 0
        self.next_id = 1
        self.buffer = bytearray()
        if handshake:
            self.negotiate(compressions)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def negotiate(self, compressions=(0,)):
        command = self.commands["NEGOTIATE"]
        self.send_raw(encode_frame(NEGOTIATION_REQUEST, command, 0, 0, negotiation_payload(compressions)))
        frame = self.recv()
        version, chosen = struct.unpack(">HB", frame.payload)
        if (frame.kind, frame.command, version) != (NEGOTIATION_RESPONSE, command, 2) or frame.status != OK:
            raise CodecError("handshake answer")
        self.compression = chosen

    def send_raw(self, data):
        self.sock.sendall(data)

    def send_payload(self, command, payload, request_id=None):
        if request_id is None:
            request_id, self.next_id = self.next_id, self.next_id + 1
        number = self.commands[command] if isinstance(command, str) else command
        self.send_raw(encode_frame(REQUEST, number, 0, request_id, payload, self.compression))
        return request_id

    def send(self, command, fields=(), positionals=(), request_id=None):
        return self.send_payload(command, encode_request(fields, positionals), request_id)

    def _fill(self, count):
        while len(self.buffer) < count:
            piece = self.sock.recv(max(65536, min(count - len(self.buffer), 1 << 20)))
            if not piece:
                if self.buffer:
                    raise CodecError("closed inside a frame")
                raise Closed
            self.buffer += piece

    def recv(self):
        try:
            self._fill(HEADER.size)
            head = check_header(bytes(self.buffer[: HEADER.size]), self.compression)
            self._fill(HEADER.size + head[5])
        except ConnectionResetError:
            raise Closed from None
        body = bytes(self.buffer[HEADER.size : HEADER.size + head[5]])
        del self.buffer[: HEADER.size + head[5]]
        return finish_frame(head, body, self.compression)

    def answer(self, request_id=None, command=None):
        """The next frame, checked to belong to the request; raises BrokerError for an error."""
        frame = self.recv()
        if request_id is not None and frame.request_id != request_id:
            raise CodecError(f"answer to {frame.request_id} instead of {request_id}")
        if command is not None and frame.command != self.commands[command]:
            raise CodecError(f"answer with command {frame.command} instead of {command}")
        if frame.status == ERROR:
            raise decode_error(frame.payload)
        return frame

    def call(self, command, /, **fields):
        return self.answer(self.send(command, fields), command)

    def publish_batch(self, batch):
        return self.answer(self.send_payload("PUBLISH", encode_batch(batch)), "PUBLISH").json

    def publish(self, topic, message, partition=0, producer="p", acks="1", **more):
        fields = dict(topic=topic, producerId=producer, acks=acks, message=message, **more)
        if partition is not None:
            fields["partition"] = partition
        return self.call("PUBLISH", **fields).json

    def consume(self, topic, partition=0, offset=0, member="m", **more):
        return self.call("CONSUME", topic=topic, partition=partition, offset=offset, member=member, **more).batch

    def consume_all(self, topic, partition=0, offset=0, **more):
        """Every record from `offset` to the present end."""
        out = []
        while True:
            records = self.consume(topic, partition, offset, **more).records
            if not records:
                return out
            out += records
            offset = records[-1].offset + 1

    def is_open(self):
        """True when an ordinary request is still answered."""
        try:
            return self.call("HELP").text.startswith("OK commands=")
        except (Closed, OSError):
            return False

    def is_closed(self, within=60.0):
        """True when the broker closes the connection and sends nothing more."""
        self.sock.settimeout(within)
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
