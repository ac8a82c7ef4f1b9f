"""Recordings of a function: kernel calls that anybody can read."""

import pytest
import torch

from note_rl.learners.pytorch.step_graph import builder
from note_rl.learners.pytorch.step_graph.record import recorded
from note_rl.learners.pytorch.step_graph.replay import replay
from tests.note_rl.learners.step_graph.recorded_agents import built_in, learner_of, minibatches


def test_a_recording_says_what_it_reads_and_writes_and_how_much_it_computes():
    weight, seen, unused = torch.ones(3, 4), torch.zeros(3), torch.ones(2)

    def function(x):
        seen.add_(1.0)
        return [x @ weight + torch.rand(2, 4)]

    recording = recorded(function, [weight, seen, unused], [torch.ones(2, 3)])
    assert [id(one) for one in recording.captured] == [id(weight), id(seen)]
    assert recording.written == [1]
    assert recording.is_random
    assert not recording.pure
    assert (recording.num_calls, recording.large_products) == (4, frozenset())
    assert recording.num_elements == 2 * 4 + 2 * 4, "random numbers and a sum; products count otherwise"


def test_shapes_that_depend_on_the_minibatch_are_refused():
    with pytest.raises(ValueError, match="what nonzero gives depends on the minibatch"):
        recorded(lambda x: [torch.nonzero(x)], [], [torch.ones(3)])


def test_a_step_can_be_read_with_the_names_of_its_tensors(monkeypatch):
    monkeypatch.setattr(builder, "compiled", replay)
    learner = learner_of(built_in("DQN"), True)
    assert learner.step_graphs() == []
    for seed in range(2):
        learner.update(minibatches(sync=(True,), seed=seed), {})
    (text,) = learner.step_graphs()
    title, *lines = text.splitlines()
    assert title == "# whole; all groups learn"
    meanings = [line.partition(": ")[2] for line in lines if line.startswith("# ")]
    assert meanings[0] == "q_net/layers.0.weight [8, 4]"
    assert meanings.count("a constant or slot [8, 4]") == 2, "the moments of a weight"
    assert meanings[-8:] == [
        *("obs [6, 4]", "action [6]", "reward [6]", "next_obs [6, 4]", "terminated [6]", "discount [6]", "weights [6]"),
        "the numbers of Adam 0",
    ]
    code = "\n".join(line for line in lines if not line.startswith("# "))
    assert code.startswith("def forward(self, arg")
    assert "torch.ops.aten.smooth_l1_loss_backward.default(" in code
    compile(code, "step", "exec")
