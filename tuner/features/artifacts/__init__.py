"""The page and the film of each winner as artifacts of Optuna, which its dashboard shows (`tuner dashboard`)."""
