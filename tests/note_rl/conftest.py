"""One thread per process: several make tiny networks slower, and very much so while other processes are busy."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
