"""Lost processes of a cluster, and how errors name them."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from note_rl.distributed.keras import coordinator
from note_rl.distributed.keras.coordinator import Coordinator
from note_rl.distributed.keras.signs_of_life import Sign
from note_rl.errors import PeerError


class Waiting:
    """A ClusterCoordinator of TensorFlow whose work is never done."""

    def __init__(self, strategy):
        pass

    def done(self):
        return False


@pytest.fixture
def coordinated(monkeypatch):
    """Of two servers and two workers that give the signs in `signs`; waits for them."""
    monkeypatch.setattr(tf.distribute.coordinator, "ClusterCoordinator", Waiting)
    monkeypatch.setattr("note_rl.errors._said", set())
    monkeypatch.setattr(coordinator, "SILENCE_S", 0.1)
    monkeypatch.setattr(coordinator, "_LOOK_S", 0.02)
    cluster = {"ps": ["p:0", "p:1"], "worker": ["w:0", "w:1"]}
    spec = SimpleNamespace(as_dict=lambda: cluster)
    strategy = SimpleNamespace(_cluster_resolver=SimpleNamespace(cluster_spec=lambda: spec))
    signs = dict.fromkeys(["p:0", "p:1", "w:0", "w:1"], Sign.ANSWERS)
    monkeypatch.setattr(coordinator, "signs_of", lambda addresses: [signs[one] for one in addresses])
    return Coordinator(strategy), signs


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ({"p:1": Sign.GONE}, r"parameter server 1 \(p:1\) has ended, and with it the parameters"),
        ({"p:0": Sign.SILENT}, r"parameter server 0 \(p:0\) has not been heard of"),
        ({"w:1": Sign.SILENT}, r"worker 1 \(w:1\) has not been heard of"),
        ({"w:0": Sign.GONE, "w:1": Sign.GONE}, "no worker is left of w:0, w:1"),
    ],
)
def test_who_is_lost_is_named(coordinated, lost, message):
    waiting, signs = coordinated
    signs.update(lost)
    with pytest.raises(PeerError, match=message):
        waiting.join()


def test_one_worker_that_has_ended_is_done_without(coordinated, caplog):
    waiting, signs = coordinated
    signs["w:0"] = Sign.GONE
    answers = iter([False] * 200)
    waiting._coordinator.done = lambda: next(answers, True)
    waiting.join()
    assert "worker 0 (w:0) has ended; the others take its steps" in caplog.text


def test_errors_of_a_lost_process_name_it_and_others_stay(coordinated):
    waiting, signs = coordinated
    with pytest.raises(PeerError, match="does not answer: out of reach"), waiting.naming_the_lost():
        raise tf.errors.UnavailableError(None, None, "out of reach\nand more")
    with pytest.raises(tf.errors.InternalError), waiting.naming_the_lost():
        raise tf.errors.InternalError(None, None, "of the agent, while everybody is there")
    signs["p:0"] = Sign.GONE
    with pytest.raises(PeerError, match=r"parameter server 0 \(p:0\) has ended"), waiting.naming_the_lost():
        raise tf.errors.AbortedError(None, None, "gone")
    with pytest.raises(KeyError), waiting.naming_the_lost():
        raise KeyError("another")
