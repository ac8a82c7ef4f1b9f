"""Trials on the machines of a Ray cluster.

A seat (`tuner.executors.remote`) is a Ray actor that reserves what a trial may use. Ray places the seats, carries
values to and from them and notices when their machine dies. Nothing here is imported unless `executor=ray` is chosen.
"""
