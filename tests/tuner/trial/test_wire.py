"""Messages on the wire: one line each, and nothing else is read."""

import pytest

from tuner.trial.messages import Alive, Built, Log, Refused, Report, Started
from tuner.trial.wire import MAX_LINE_BYTES, Launch, decode, decode_verdict, encode, encode_verdict


@pytest.mark.parametrize(
    "message",
    [
        Started(17),
        Refused("busy"),
        Built(0.1, {"agent": {"gamma": 0.99}, "list": [1, None, "x"]}),
        Report(0.1 + 0.2, 1e-300),
        Log(3, {"loss": float("inf")}),
        Alive(0.5),
    ],
)
def test_messages_survive_the_wire(message):
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == message


def test_text_with_newlines_stays_one_line():
    assert encode(Refused("one\ntwo")).count(b"\n") == 1


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"kind": "unknown"}', b'{"kind": "alive"}', b"\x00\xff"])
def test_other_lines_are_refused(line):
    with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message, or ours
        decode(line)


def test_a_message_that_the_other_side_would_not_read_is_not_sent():
    around = len(encode(Built(0.0, {"name": ""})))
    longest = Built(0.0, {"name": "x" * (MAX_LINE_BYTES - around)})
    assert decode(encode(longest)) == longest
    with pytest.raises(ValueError, match="what built is to tell takes 4,000,001 bytes; at most 4,000,000 are sent"):
        encode(Built(0.0, {"name": "x" * (MAX_LINE_BYTES - around + 1)}))


def test_verdicts_survive_the_wire():
    assert [decode_verdict(encode_verdict(verdict)) for verdict in ("continue", "prune", "stop")] == [
        "continue",
        "prune",
        "stop",
    ]


def test_launch_survives_the_wire():
    launch = Launch("/a folder", "/", ["/x"], {"A": "b=c\nd"}, 1.5, 100)
    assert Launch.decode(launch.encode()) == launch
