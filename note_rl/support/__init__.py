"""What every room builds on: checks of arguments, near names, files that are written whole, threads."""
