"""Population based training: members that are compared while they train, copied, and changed."""
