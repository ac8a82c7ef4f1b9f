"""Signs of life, who serves whom and how long, and who is named when somebody is lost; processes: test_keras_served."""

import json
import threading

import pytest

from note_rl import rl
from note_rl.distributed.keras import server, signs_of_life
from note_rl.distributed.keras.server import serve_as
from note_rl.distributed.keras.signs_of_life import Sign, sign_of
from note_rl.errors import PeerError, SettingsError
from tests.note_rl.distributed.keras.clusters import free_address


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
