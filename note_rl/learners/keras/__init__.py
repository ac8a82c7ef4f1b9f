"""The learner of agents written in Keras: `learner` is the door, `step` what is traced into an update."""
