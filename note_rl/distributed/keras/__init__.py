"""Strategies of tf.distribute, under which agents in Keras train."""
