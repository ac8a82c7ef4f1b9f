"""Studies of `tuner tune` whose trials are none: the command line, and what is found afterwards."""

import shlex

from tests.tuner.command_line import Answer, CommandLine
from tuner.study import StudyStore, find_winner
from tuner.trial.messages import JsonDict

FAKE = ("--config-dir", "mine", "executor=fake", "tracker=jsonl", "storage=journal")
STORAGE = "journal:///studies.journal"
SMALL_STUDY = (
    *("study.num_trials=5", "study.num_candidates=2", "study.num_test_seeds=2", "study.num_race_seeds=0"),
    "study.name=mine",
)

NOT_JUDGED = ("seed", "checkpoint", "tracker", "resume", "trust", "progress")


def tune(tuner: CommandLine, *arguments: str) -> Answer:
    answer = tuner("tune", *FAKE, *SMALL_STUDY, *arguments)
    assert answer.status == 0, answer
    return answer


def judged(config: JsonDict) -> JsonDict:
    return {key: value for key, value in config.items() if key not in NOT_JUDGED}


def winner_of(tuner: CommandLine, name: str = "mine") -> JsonDict:
    with StudyStore(STORAGE) as store:
        winner = find_winner(store, name)
    assert winner is not None
    return winner.config


def line_after(answer: Answer, words: str) -> list[str]:
    lines = answer.output.splitlines()
    return shlex.split(lines[lines.index(f"{words}:") + 1])
