"""How several environments are typed, and what is refused with them."""

from tuner.checking.features import InChecking
from tuner.features.environments.typed import as_typed, check_typed, in_environment, refuse_several, spelled_out

PART = InChecking(meant=spelled_out, again=as_typed, within=in_environment, one_only=refuse_several, typed=check_typed)
