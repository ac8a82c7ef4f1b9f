"""Threads of numerical libraries. Imports nothing, so that it can be asked before they are imported."""

_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


def thread_variables(threads: int) -> dict[str, str]:
    """The environment variables that hold numerical libraries to a number of threads in a new process."""
    return dict.fromkeys(_VARIABLES, str(threads))
