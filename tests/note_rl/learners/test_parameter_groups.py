"""What `agent.param` holds, counted."""

import pytest

from note_rl.errors import AgentContractError
from note_rl.learners.base import num_parameters
from tests.note_rl.frameworks import frameworks


@pytest.mark.parametrize("framework", frameworks())
def test_the_number_of_parameters_is_that_of_all_groups(framework) -> None:
    weight, bias, scalar = (
        framework.variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        framework.variable([1.0] * 3),
        (framework.variable(1.0)),
    )
    assert num_parameters([weight, bias]) == 9
    assert num_parameters([[weight, bias], [scalar]]) == 10
    with pytest.raises(AgentContractError, match=r"agent\.param is empty"):
        num_parameters([])
