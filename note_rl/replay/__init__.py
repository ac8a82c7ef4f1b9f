"""Where experience is kept and how it is read back."""
