"""Which attributes a traced function has read, and when their change counts; no framework is needed for that."""

from typing import Any

import pytest

from note_rl.learners.keras.trace_constants import Constants


class Agent:
    margin = 0.5

    def __init__(self) -> None:
        self.gamma = 0.9
        self.coefs = [1, 2]
        self.unused = 0
        self.network = object()
        self.target = lambda reward: reward + self.gamma

    def __call__(self, reward: float) -> Any:
        return self.target(reward), self.network


class Forwarding(Agent):
    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("gamma" if name == "alias" else name)

    def __call__(self, reward: float) -> Any:
        return super().__call__(self.alias)


def noted(agent: Any, **options: Any) -> Constants:
    constants = Constants(agent, **options)
    with constants.guarded():
        agent(1.0)
    return constants


def test_what_was_read_counts_wherever_it_was_read_and_nothing_else() -> None:
    agent = Agent()
    constants = noted(agent)
    agent.unused, agent.coefs = 1, []
    assert constants.changed() == []
    agent.gamma = 0.8  # read by a function that the agent only holds
    assert constants.changed() == ["gamma"]
    agent.gamma, agent.network = 0.9, object()
    assert constants.changed() == ["network"]


def test_what_comes_as_an_input_may_change() -> None:
    agent = Agent()
    constants = noted(agent, inputs=["gamma"])
    agent.gamma = 0.8
    assert constants.changed() == []


@pytest.mark.parametrize(("before", "after", "counts"), [(1, True, True), (1, 1.0, True), ([1], [1], False)])
def test_equal_numbers_of_another_kind_count(before: object, after: object, counts: bool) -> None:
    agent: Any = Agent()
    agent.gamma, agent.target = before, lambda reward: agent.gamma
    constants = noted(agent)
    agent.gamma = after
    assert constants.changed() == (["gamma"] if counts else [])


def test_an_attribute_that_takes_the_place_of_the_class_s_own_counts() -> None:
    agent: Any = Agent()
    agent.target = lambda reward: agent.margin
    constants = noted(agent)
    agent.margin = 0.1
    assert constants.changed() == ["margin"]


@pytest.mark.parametrize("kind", [Agent, Forwarding])
def test_the_class_is_as_it_was_after_tracing_and_others_of_it_are_not_noted(kind: type[Any]) -> None:
    agent, other = kind(), kind()
    own = vars(kind).get("__getattribute__")
    constants = Constants(agent)
    with constants.guarded():
        assert type(agent) is kind
        other(1.0)
    assert vars(kind).get("__getattribute__") is own
    agent.gamma = 0.1
    assert constants.changed() == []


def test_the_class_is_as_it_was_after_tracing_has_failed() -> None:
    agent = Agent()
    agent.target = lambda reward: reward / 0
    with pytest.raises(ZeroDivisionError):
        noted(agent)
    assert "__getattribute__" not in vars(Agent)


def test_a_class_with_lookups_of_its_own_keeps_them_while_it_is_traced() -> None:
    agent = Forwarding()
    constants = noted(agent)
    agent.gamma = 0.8
    assert constants.changed() == ["gamma"]


class Optimizer:
    _learning_rate = None

    def __init__(self) -> None:
        self.beta, self.name, self.slots = 0.9, "adam", object()


def test_optimizers_are_compared_by_their_numbers_and_what_can_change_within_by_what_it_holds() -> None:
    agent: Any = Agent()
    agent.target = lambda reward: agent.coefs
    optimizer = Optimizer()
    constants = noted(agent, optimizers=[optimizer])
    optimizer.slots = object()  # no number
    assert constants.changed() == []
    optimizer.beta = 0.8
    assert constants.changed() == ["Optimizer 0: beta"]
    optimizer.beta = 0.9
    assert constants.changed() == []
    agent.coefs[0] = 3  # the list stays the same object
    assert constants.changed() == ["coefs"]
    agent.coefs = [1, 2]  # another list of the same numbers
    assert constants.changed() == []
    agent.coefs[0] = 3
    assert constants.changed() == ["coefs"]
