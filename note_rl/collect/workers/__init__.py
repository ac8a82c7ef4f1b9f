"""Collecting in worker processes: `pool_network` is the door, `worker_process` the program of a worker."""
