"""Signs of life, who serves whom and how long, and who is named when somebody is lost; processes: test_keras_served."""

import json
import socket
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
import tensorflow as tf

from note_rl import rl
from note_rl.distributed.keras import coordinator, server, signs_of_life
from note_rl.distributed.keras.coordinator import Coordinator
from note_rl.distributed.keras.server import serve_as
from note_rl.distributed.keras.signs_of_life import Sign, sign_of, signs_of
from note_rl.errors import PeerError, SettingsError


class Listener:
    """Takes connections as the process at an address does, and gives each an answer; none: it is silent."""

    def __init__(self, answer=None):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.answer = answer
        self.num_asked = 0
        self.held = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.held.append(self.server.accept()[0])
            except OSError:
                return
            self.num_asked += 1
            if self.answer is None:
                continue
            with suppress(ConnectionError), self.held.pop() as connection:
                connection.recv(100)
                connection.sendall(self.answer)

    def close(self):
        for connection in self.held:
            connection.close()
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()


@pytest.fixture
def listen():
    made = []

    def new(answer=None):
        made.append(Listener(answer))
        return made[-1]

    yield new
    for one in made:
        if one.server.fileno() >= 0:
            one.close()


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_of_tensorflow_answers_and_what_hangs_or_has_gone_does_not(listen, monkeypatch):
    monkeypatch.setattr(signs_of_life, "_PATIENCE_S", 0.2)
    address = free_address()
    server = tf.distribute.Server({"worker": [address]}, job_name="worker", task_index=0)
    assert sign_of(address) is Sign.ANSWERS
    del server
    hanging, refusing = listen(), listen(b"")
    assert signs_of([hanging.address, refusing.address, free_address()]) == [Sign.SILENT, Sign.GONE, Sign.GONE]
    assert signs_of(["no-such-host.invalid:1"]) == [Sign.SILENT], "the network may be there again soon"


@pytest.mark.parametrize(
    "config",
    [
        None,
        {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}},
        {"cluster": {"chief": ["a:1"], "ps": ["b:2"], "worker": ["c:3"]}, "task": {"type": "chief", "index": 0}},
    ],
)
def test_who_leads_or_mirrors_does_not_serve(config, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config is not None:
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert not rl.serve()


def test_a_cluster_without_a_chief_is_refused(monkeypatch):
    config = {"cluster": {"ps": ["b:2"], "worker": ["c:3"]}, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(SettingsError, match="a ParameterServerStrategy needs one chief, one ps or more and one worker"):
        rl.serve()


def test_a_worker_serves_until_the_chief_has_ended(listen, monkeypatch):
    monkeypatch.setattr(server, "_LOOK_S", 0.02)
    chief = listen(b"settings")
    cluster = {"chief": [chief.address], "ps": [free_address()], "worker": [free_address()]}
    thread = threading.Thread(target=serve_as, args=(cluster, "worker", 0))
    thread.start()
    while chief.num_asked < 5:
        assert thread.is_alive()
    assert sign_of(cluster["worker"][0]) is Sign.ANSWERS
    chief.close()
    thread.join(10)
    assert not thread.is_alive()


def test_who_hangs_is_not_served_for_ever(listen, monkeypatch):
    for name, value in (("_LOOK_S", 0.02), ("SILENCE_S", 0.1), ("_STARTING_S", 0.1)):
        monkeypatch.setattr(server, name, value)
    monkeypatch.setattr(signs_of_life, "_PATIENCE_S", 0.02)
    cluster = {"chief": [listen(b"settings").address], "ps": [free_address()], "worker": [free_address()]}
    signs = iter([Sign.ANSWERS, Sign.ANSWERS])
    monkeypatch.setattr(server, "sign_of", lambda address: next(signs, Sign.SILENT))
    serve_as(cluster, "ps", 0)
    monkeypatch.setattr(server, "sign_of", lambda address: Sign.GONE)
    with pytest.raises(PeerError, match=r"the chief \(.*\) was not there within 0 s"):
        serve_as({**cluster, "ps": [free_address()]}, "ps", 0)


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
