"""Schemas of the commands' configurations: the sections with their types and ranges, and the parts that are built.

One table for all commands. A section is a dataclass whose fields are its keys and whose `__post_init__` refuses what is
out of range; a part is an object described by a `_target_` and its arguments, whose signature says what it takes.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from tuner.checking.features import InChecking
from tuner.checking.schema import OF_A_STUDY, Part, Schema
from tuner.checking.section_types import (
    CompareValues,
    DashboardValues,
    DoctorValues,
    ExportValues,
    GuideValues,
    OptionsValues,
    PlayedEvaluation,
    PlayValues,
    PlotValues,
    ReportValues,
    RunValues,
    StorageConfig,
    StudyConfig,
    TrainValues,
    TuneValues,
)
from tuner.config.composition import BUILT_MAPPINGS, SECTIONS
from tuner.features import parts
from tuner.results.protocol import Pruning

_RUN_PARTS: Mapping[str, Part] = {
    "agent": Part(filled_in=("env", "network", "critic_network", "device", "state_dim", "action_dim"), whole=True),
    "network": Part(filled_in=("input_shape", "num_outputs")),
    "optimizer": Part(filled_in=("parameters",)),
    "buffer": Part(whole=True),
    "policy": Part(filled_in=("noise",), whole=True),
    "noise": Part(optional=True, whole=True),
    "collector": Part(optional=True, whole=True),
    "adaptive": Part(optional=True, whole=True),
    "plateau": Part(optional=True, whole=True),
    "strategy": Part(optional=True, whole=True),
    "progress": Part(optional=True, filled_in=("console",), whole=True),
    **{name: Part(several=True, filled_in=("env",), whole=True) for name in BUILT_MAPPINGS},
}
_OF_A_FUNCTION = frozenset({"training", "evaluation", "agent", "tracker", "checkpoint", "progress"})
_FUNCTION = Part(filled_in=("seed",), whole=True)
_CORE = frozenset({"backend", "env", "network", "optimizer", "buffer", "policy"})
_FEATURES = parts(InChecking)

SCHEMAS: Mapping[str, Schema] = {
    "train": Schema(TrainValues, SECTIONS, _RUN_PARTS),
    "compare": Schema(CompareValues, SECTIONS, {**_RUN_PARTS, "executor": Part()}),
    "tune": Schema(
        TuneValues,
        {
            **SECTIONS,
            **OF_A_STUDY,
            "study": StudyConfig,
            "study.pruning": Pruning,
            **{name: section for part in _FEATURES for name, section in part.sections.items()},
        },
        {**_RUN_PARTS, "sampler": Part(filled_in=("space",)), "pruner": Part(whole=True), "executor": Part()},
        free=("space",),
        optional=("checkpoint", *(name for part in _FEATURES for name in part.sections)),
    ),
    "check": Schema(RunValues, SECTIONS, {**_RUN_PARTS, "executor": Part()}),
    "find": Schema(RunValues, {**SECTIONS, **OF_A_STUDY}, {**_RUN_PARTS, "executor": Part()}, free=("finder",)),
    "options": Schema(OptionsValues, SECTIONS, _RUN_PARTS, free=("space",)),
    "play": Schema(PlayValues, {"evaluation": PlayedEvaluation}),
    "export": Schema(ExportValues),
    "plot": Schema(PlotValues),
    "report": Schema(ReportValues, OF_A_STUDY, {"tracker": Part(several=True)}),
    "dashboard": Schema(DashboardValues, {"storage": StorageConfig}),
    "guide": Schema(GuideValues),
    "doctor": Schema(DoctorValues, {"storage": StorageConfig}, {"executor": Part()}),
    **{
        name: Schema(values, {**SECTIONS, "storage": StorageConfig}, {**_RUN_PARTS, "executor": Part()})
        for part in _FEATURES
        for name, values in part.trained.items()
    },
    **{name: schema for part in _FEATURES for name, schema in part.schemas.items()},
}
"""By primary config."""


def schema_of(command: str, present: Collection[str]) -> Schema:
    """The schema of a command's configuration.

    Args:
        command: Its primary config; one of the user's own is that of a training run.
        present: The parts that there are. A function in the place of an agent has no framework, and no environment,
            network and so on either; where only some of these are missing, they have been forgotten.
    """
    schema = SCHEMAS.get(command, SCHEMAS["train"])
    run = {*SECTIONS, *_RUN_PARTS} - _OF_A_FUNCTION
    if len(_CORE.intersection(present)) > 1 or "agent" not in schema.parts:
        return schema
    return replace(
        schema,
        sections={path: section for path, section in schema.sections.items() if path not in run},
        parts={**{path: part for path, part in schema.parts.items() if path not in run}, "agent": _FUNCTION},
    )
