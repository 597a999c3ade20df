"""The handshake: the client's order decides, both command numberings, one compression for a whole connection."""

import socket

import pytest

import crs2client as crs2
from refusal import refused


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_the_first_compression_of_the_client_is_taken(broker, first):
    others = [n for n in (0, 1, 2, 3) if n != first]
    with broker.client([first] + others) as client:
        assert client.compression == first
        assert client.is_open()


def test_the_shifted_numbering_is_spoken_when_negotiate_comes_as_47(broker, topic):
    with broker.client(shifted=True) as client:
        frame = client.call("METADATA", topic=topic)
        assert frame.command == 45
        assert frame.ok_fields["topic"] == topic
        client.send("EXIT")
        assert client.recv().command == 48
        assert client.is_closed()


def test_shifted_metadata_number_is_an_internal_command_in_the_plain_numbering(client, topic):
    number = crs2.SHIFTED_COMMANDS["METADATA"]
    request_id = client.send(number, {"topic": topic})
    with pytest.raises(crs2.BrokerError) as caught:
        client.answer(request_id)
    assert caught.value.code == "internal_command_unauthorized"


def test_negotiation_repeated_on_a_connection_closes_it(client):
    client.send_raw(crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload()))
    assert client.is_closed()


def test_requests_sent_right_behind_the_handshake_are_answered(broker):
    with broker.client(handshake=False) as client:
        hello = crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload())
        client.send_raw(hello + crs2.encode_frame(3, 13, 0, 5, crs2.encode_request()))
        assert client.recv().kind == crs2.NEGOTIATION_RESPONSE
        assert client.answer(5, "HELP").text.startswith("OK commands=")


@pytest.mark.parametrize("compression", [1, 2, 3])
def test_errors_and_empty_answers_are_compressed_too(broker, compression, new_name):
    # recv() insists on the negotiated flags of every frame.
    with broker.client([compression]) as client:
        name = new_name()
        refused(client, "DESCRIBE", {"topic": name}, "topic_not_found", topic=name)
        assert client.is_open()


def test_end_of_input_between_frames_is_a_normal_end(client):
    assert client.is_open()
    client.sock.shutdown(socket.SHUT_WR)
    assert client.is_closed()
