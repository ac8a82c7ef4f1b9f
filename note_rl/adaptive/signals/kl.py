"""How far PPO's policy has moved from the one that collected, by their KL divergence."""

from note_rl.adaptive.signals.base import Signal, TrainingView
from note_rl.learners.reports import kl_divergence
from note_rl.settings.signals import POLICY_RATIOS, register
from note_rl.types import Sample, Update


@register
class KL(Signal):
    """KL divergence of the present policy from the collecting one."""

    name = "kl"
    text = "KL divergence of PPO's collecting from its present policy"
    target = 0.01
    needs = (POLICY_RATIOS,)
    larger_is_better = False
    stands_for_kl = True

    def after_update(self, sample: Sample, update: Update, view: TrainingView) -> float:
        """Reads the ratios of the last epoch."""
        return kl_divergence(view.ratios_of_last_epoch(update, self.name))

    def kl_ratio(self, value: float, target: float) -> float:
        """Returns the ratio to the target itself."""
        return self.ratio(value, target)
