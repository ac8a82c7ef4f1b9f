import json

import pytest

from tuner.trial.messages import (
    Alive,
    Built,
    Log,
    Outcome,
    Refused,
    Report,
    Started,
    TrialInterrupted,
    TrialResult,
    TrialSpec,
)
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


def test_spec_survives_its_file_and_knows_its_key():
    spec = TrialSpec("study", "screen", 7, 123, {"env": {"id": "CartPole-v1"}}, threads=2)
    assert TrialSpec.from_json(spec.to_json()) == spec
    assert spec.key == "screen/7"
    assert spec.entry == "tuner.runs.training:run_trial"


def test_result_survives_its_file():
    result = TrialResult(Outcome.TIMED_OUT, "too long", "line 1\nline 2", 1.25)
    assert TrialResult.from_json(result.to_json()) == result
    assert json.loads(result.to_json())["outcome"] == "timed_out"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"outcome": "fine"}', '{"outcome": "complete", "more": 1}'])
def test_damaged_results_and_specs_are_value_errors(text):
    for kind in (TrialResult, TrialSpec):
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's own message, or ours
            kind.from_json(text)


def test_interruption_is_not_swallowed_as_an_exception():
    def train_carelessly():
        try:
            raise TrialInterrupted(Outcome.PRUNED, "at step 3")
        except Exception:  # noqa: BLE001
            return

    with pytest.raises(TrialInterrupted, match="pruned: at step 3") as caught:
        train_carelessly()
    assert caught.value.outcome is Outcome.PRUNED
