"""Networks, policies and mathematics that several algorithms share, in Keras."""
