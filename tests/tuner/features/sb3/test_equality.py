"""A study of `agent=sb3` finds what a study of the same algorithm in a function written by hand finds."""

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.features.sb3.handwritten import LONGEST_EPISODE, NUM_EPISODES, NUM_POINTS
from tuner.features.sb3.sb3_internals import import_quickly
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict

STUDY = (
    *("executor=inline", "storage=journal", "tracker=jsonl", "training.total_steps=192"),
    *(f"evaluation.num_points={NUM_POINTS}", f"evaluation.num_episodes={NUM_EPISODES}"),
    *("study.num_trials=2", "study.num_candidates=1", "study.num_test_seeds=1", "study.num_race_seeds=0"),
    *("study.num_select_seeds=2", "space=none", "+space.agent.learning_rate={low: 1.0e-4, high: 0.1, log: true}"),
)
LIBRARY = (
    *("agent=sb3_ppo", "agent.n_steps=32", "agent.batch_size=16", "agent.n_epochs=2", "agent.net_arch=[8]"),
    f"env.max_episode_steps={LONGEST_EPISODE}",
)
FUNCTION = (
    *("agent=function", "agent._target_=tests.tuner.features.sb3.handwritten.train", "+agent.learning_rate=3.0e-4"),
    "+agent.total_steps=${training.total_steps}",
)


def study(tuner: CommandLine, name: str, words: tuple[str, ...]) -> StudySummary:
    answer = tuner("tune", *words, *STUDY, f"study.name={name}")
    assert answer.status == 0, answer
    return api.load(name, storage="journal:///studies.journal").summary


def test_the_verdict_is_that_of_the_function_written_by_hand(tuner: CommandLine) -> None:
    import_quickly("stable_baselines3")  # before the function does: without TensorFlow
    found = [study(tuner, *one) for one in (("library", LIBRARY), ("function", FUNCTION))]
    runs = [[(run.stage, run.label, run.seed, dict(run.params), run.value) for run in one.runs] for one in found]
    assert runs[0] == runs[1]
    assert len(runs[0]) >= 5
    assert len({run[-1] for run in runs[0]}) > 1, "runs that all score alike would be equal anyway"
    curves = [[[value for _, value in run.curve] for run in one.runs] for one in found]
    assert curves[0] == curves[1]
    assert found[0].winner_label is not None
    assert {run[0] for run in runs[0]} == {"screen", "confirm", "test"}
    assert verdict(found[0]) == verdict(found[1])
