"""Whether the process at an address is there."""

import tensorflow as tf

from note_rl.distributed.keras import signs_of_life
from note_rl.distributed.keras.signs_of_life import Sign, sign_of, signs_of
from tests.note_rl.distributed.keras.clusters import free_address


def test_a_server_of_tensorflow_answers_and_what_hangs_or_has_gone_does_not(listen, monkeypatch):
    monkeypatch.setattr(signs_of_life, "_PATIENCE_S", 0.2)
    address = free_address()
    server = tf.distribute.Server({"worker": [address]}, job_name="worker", task_index=0)
    assert sign_of(address) is Sign.ANSWERS
    del server
    hanging, refusing = listen(), listen(b"")
    assert signs_of([hanging.address, refusing.address, free_address()]) == [Sign.SILENT, Sign.GONE, Sign.GONE]
    assert signs_of(["no-such-host.invalid:1"]) == [Sign.SILENT], "the network may be there again soon"
