"""How far PPO's policy has moved from the one that collected, by the effective sample size of their ratios."""

from collections.abc import Mapping

from note_rl.adaptive import ess
from note_rl.adaptive.signals.base import TrainingView
from note_rl.adaptive.signals.effective_share import EffectiveShare
from note_rl.settings.signals import POLICY_RATIOS, register
from note_rl.types import Sample, Update


@register
class RatioEss(EffectiveShare):
    """Effective share of the raw ratios of new to old policy: exp(-2 KL) for shifted Gaussians."""

    name = "ratio_ess"
    text = "effective share of PPO's ratios of new to old policy, which falls as the policy moves away"
    target = 0.97  # a divergence of 0.015
    needs = (POLICY_RATIOS,)

    def after_update(self, sample: Sample, update: Update, view: TrainingView) -> float:
        """Reads the ratios of the last epoch."""
        return ess.of_weights(view.ratios_of_last_epoch(update, self.name)).fraction

    def beside(self, update: Update, view: TrainingView) -> Mapping[str, float]:
        """Returns the share of clipped ratios, which is large whatever the policy does."""
        clip = view.clip()
        if clip is None:
            return {}
        ratios = view.ratios_of_last_epoch(update, self.name)
        return {"clipped_ratio_ess": ess.clipped_ratios(ratios, clip).fraction}
