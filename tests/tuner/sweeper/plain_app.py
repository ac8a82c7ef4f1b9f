"""A Hydra application that knows nothing of reinforcement learning; it is copied into a folder of its own."""

import importlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

import tuner

HERE = Path(__file__).parent


@dataclass
class Config:
    x: float = 0.0
    twice: float = "${double:${x}}"
    model: str = "good"
    seconds: float = 0.0
    steps: int = 5
    accidents: bool = True
    helper: str = "helper"


ConfigStore.instance().store("config", Config)
OmegaConf.register_new_resolver("double", lambda number: 2 * number)  # a lambda of a script travels by value only


@hydra.main(version_base=None, config_name="config")
def main(config):
    number = HydraConfig.get().job.num
    loss = (config.twice / 2 - 1.0) ** 2 + (0.0 if config.model == "the, good" else 0.5)
    loss += importlib.import_module(config.helper).PLUS + json.loads((HERE / "data.json").read_text())["plus"]
    if number == 3 and config.accidents:
        raise ValueError("it is three")
    if number in (4, 5) and config.accidents:
        return {4: None, 5: float("nan")}[number]
    for step in range(config.steps):
        time.sleep(config.seconds / config.steps)
        assert tuner.report(step, loss + 1.0 / (step + 1))
    with open(os.path.join(HydraConfig.get().runtime.output_dir, "finished"), "a") as file:
        file.write(f"{config.model}\n")
    return loss


if __name__ == "__main__":
    main()
