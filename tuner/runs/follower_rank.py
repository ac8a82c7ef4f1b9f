"""The part of a run that a process has which does not lead: it takes gradient steps along, or serves."""

from tuner.config.composition import RunConfig
from tuner.config.vocabulary import speaking_of_settings
from tuner.runs.build import build_distributed, build_run, import_framework
from tuner.runs.run_strategy import role_of, together
from tuner.runs.run_threads import few_threads


def follow(config: RunConfig) -> None:
    """Trains along with the process that leads until that has trained. Nothing is evaluated, logged or saved here.

    Args:
        config: The same as that of the process that leads, but for the role of this one.

    Raises:
        note_rl.errors.PeerError: It has failed or died, or is silent.
    """
    with few_threads(config.backend), speaking_of_settings():
        shared = build_distributed(config)
        role = role_of(shared)
        assert shared is not None
        assert role is not None
        if shared.strategy == "parameter_server":
            import_framework(config.backend)
            from note_rl.distributed.keras.server import serve_as  # which imports TensorFlow

            serve_as(role.cluster, role.kind, role.index)
            return
        with together(config) as sharing:
            run, training = build_run(config, sharing), config.training
            run.agent.distributed_training(
                optimizer=run.optimizer,
                total_steps=training.total_steps,
                jit_compile=training.jit_compile,
                p=0,
                **run.sharing,
            )
