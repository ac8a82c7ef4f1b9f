"""Basics for every room: checks of arguments, near names, files that are written whole, threads."""
