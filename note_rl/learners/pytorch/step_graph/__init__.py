"""Gradient steps replayed without modules and dispatch: recorded once, guarded, compiled where that pays."""
