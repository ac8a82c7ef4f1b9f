"""What each command's configuration must hold, and what is said of one that does not."""
