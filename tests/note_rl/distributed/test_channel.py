"""Lines between processes: what is sent arrives, and an end that is gone is found out."""

import socket

import numpy as np
import pytest

from note_rl.distributed import channel
from note_rl.distributed.channel import Line
from note_rl.errors import DivergedError, PeerError


@pytest.fixture
def ends():
    made = [Line(end, f"rank {rank}") for rank, end in zip((1, 0), socket.socketpair(), strict=True)]
    yield made
    for line in made:
        line.close()


def test_values_and_arrays_arrive_in_order(ends):
    first, second = ends
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "none": np.zeros((0, 4)),
        "one": np.array(3),
        "flag": np.array([True]),
    }
    first.send({"do": "this", "number": 0.1 + 0.2, "nan": float("inf")}, arrays)
    first.send({"do": "that"}, {"turned": np.arange(6).reshape(2, 3).T})
    message = second.receive()
    assert message.head == {"do": "this", "number": 0.1 + 0.2, "nan": float("inf")}
    for name, values in arrays.items():
        np.testing.assert_array_equal(message.arrays[name], values, strict=True)
    np.testing.assert_array_equal(second.receive().arrays["turned"], np.arange(6).reshape(2, 3).T)


def test_more_than_a_connection_holds_at_once(ends):
    first, second = ends
    large = np.random.default_rng(0).random(2_000_000)
    first.send({}, {"large": large})
    np.testing.assert_array_equal(second.receive().arrays["large"], large)


def test_an_end_that_is_gone_is_named(ends):
    first, second = ends
    first.send({"do": "last"})
    first.close()
    assert second.receive().head == {"do": "last"}
    with pytest.raises(PeerError, match="rank 0 has ended"):
        second.receive()
    with pytest.raises(PeerError, match="rank 0 has ended"):
        second.send({}, {"large": np.zeros(10_000_000)})


def test_last_words_are_reported(ends):
    first, second = ends
    first.send({channel.FAILED: "KeyError: 'x'"})
    first.close()
    with pytest.raises(PeerError, match="rank 0 has failed: KeyError: 'x'"):
        second.receive()


def test_an_end_that_has_found_what_is_not_finite_is_one_that_has_diverged(ends):
    first, second = ends
    first.send({channel.DIVERGED: "a TD error is not finite"})
    first.close()
    for kind in (PeerError, DivergedError):
        with pytest.raises(kind, match="rank 0 has diverged: a TD error is not finite"):
            second.receive()


def test_silence_is_noticed_and_work_is_not_silence(monkeypatch):
    monkeypatch.setattr(channel, "_BEAT_S", 0.05)
    monkeypatch.setattr(channel, "SILENCE_S", 2.0)
    ours, theirs = socket.socketpair()
    alive, mute = socket.socketpair()
    line, other, watching = Line(ours, "rank 1"), Line(theirs, "rank 0"), Line(alive, "rank 2")
    with pytest.raises(PeerError, match="rank 2 has not been heard of for 2 s"):
        watching.receive()
    line.check()  # as long, and nothing was sent but signs of life
    for one in (line, other, watching):
        one.close()
    mute.close()


@pytest.mark.parametrize("closed", [True, False])
def test_the_callback_of_a_line_gets_an_end_that_is_lost_but_not_one_that_is_closed(closed):
    ours, theirs = socket.socketpair()
    told = []
    line, other = Line(ours, "rank 1", told.append), Line(theirs, "rank 0")
    if closed:
        other.close()
    else:
        theirs.shutdown(socket.SHUT_RDWR)
    with pytest.raises(PeerError, match="rank 1 has ended"):
        line.receive()
    assert told == ([] if closed else ["rank 1 has ended"])
    line.close()
    other.close()


def test_messages_over_a_network_are_sent_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other = server.accept()[0]
    lines = [Line(one, "rank 1"), Line(other, "rank 0")]
    assert all(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for end in (one, other))
    for line in lines:
        line.close()
