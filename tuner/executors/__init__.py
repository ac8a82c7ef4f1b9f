"""Where trials run: `base` says what an executor is, `local` is the one of this machine."""
