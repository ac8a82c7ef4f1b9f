"""`tuner bench`: runs that have ended are not repeated, and what cannot be compared is refused."""

import json
import subprocess
import sys
import time

from tests.tuner.command_line import SMALL, CommandLine

AGENTS = ("agent=[dqn,ppo]", "env=[cartpole,acrobot]", "seeds=1", "executor=inline", *SMALL, "hydra.run.dir=b")


def test_goes_on_where_it_was_ended(tuner: CommandLine) -> None:
    answer = tuner("bench", *AGENTS)
    assert answer.status == 0, answer
    path = tuner.folder / "b" / "bench.jsonl"
    lines = path.read_text().splitlines()
    assert [json.loads(line)[0] for line in lines] == ["dqn_cartpole", "dqn_acrobot", "ppo_cartpole", "ppo_acrobot"]
    assert min(json.loads(line)[1] for line in lines) >= 3 * 2**29, "they are seeds of studies"
    marked = [json.dumps([*json.loads(line)[:2], 7.5]) for line in lines[:3]]
    path.write_text("\n".join(marked) + "\n")
    again = tuner("bench", *AGENTS)
    assert "4 runs, 3 of them done already" in again.output
    assert path.read_text().splitlines() == [*marked, lines[3]]
    page = (tuner.folder / "b" / "bench.html").read_text()
    assert "acrobot</strong>: 0 is -500, 1 is -75 (reference of its file)" in page
    other = tuner("bench", *AGENTS, "agent.gamma=0.5")
    assert (other.status, "agent.gamma was 0.99 and is 0.5" in other.errors) == (2, True), other


def test_what_is_killed_goes_on_and_comes_to_the_same(tuner: CommandLine) -> None:
    words = ("bench", "agent=[dqn,ppo]", "env=cartpole", "seeds=2", "executor=inline", *SMALL)
    assert tuner(*words, "hydra.run.dir=alone").status == 0
    path = tuner.folder / "killed" / "bench.jsonl"
    command = [sys.executable, "-m", "tuner", *words, "hydra.run.dir=killed"]
    with subprocess.Popen(command, cwd=tuner.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (path.exists() and path.read_bytes().count(b"\n")):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.kill()
    kept = path.read_bytes()
    assert 1 <= kept.count(b"\n") < 4
    again = tuner(*words, "hydra.run.dir=killed")
    assert again.status == 0, again
    assert path.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
    ends = [(tuner.folder / folder / "bench.jsonl").read_text().splitlines() for folder in ("killed", "alone")]
    assert [json.loads(line) for line in ends[0]] == [json.loads(line) for line in ends[1]]


def test_compares_two_settings_on_the_scale_of_their_environment(tuner: CommandLine) -> None:
    two = "settings=['agent.gamma=0.9','agent.gamma=0.5 network.hidden_sizes=[8, 8]']"
    words = ("compare", "agent=dqn", two, *SMALL, "num_seeds=2", "hydra.run.dir=b")
    answer = tuner(*words)
    assert answer.status == 0, answer
    assert "interquartile mean of scores, CartPole-v1" in answer.output
    assert " minus " in answer.output
    kept = json.loads((tuner.folder / "b" / "bench.json").read_text())["cells"]
    assert [cell["network"]["hidden_sizes"] for cell in kept.values()] == [[8], [8, 8]]
    page = (tuner.folder / "b" / "bench.html").read_text()
    assert "normalised" not in page.partition("<script")[0]
    assert "What tuning would bring" not in page
    assert "4 runs, 4 of them done already" in tuner(*words).output


def test_refusals(tuner: CommandLine) -> None:
    assert "names dqn twice" in tuner.refused("bench", "agent=[dqn,dqn]")
    assert "must be names" in tuner.refused("bench", "agent=[]")
    assert "are the same in env=cartpole" in tuner.refused("bench", "settings=['agent.gamma=0.9','agent.gamma=0.90']")
    assert "'gamma' must be settings" in tuner.refused("bench", "settings=[gamma]")
    assert "takes two" in tuner.refused("compare", "settings=['agent.gamma=0.9']")
