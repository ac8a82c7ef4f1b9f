"""One run: built from its configuration, trained or called, recorded in its folder."""
