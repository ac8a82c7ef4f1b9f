"""Tools of no room in particular: text made fit to be shown, names that were probably meant, files, Ctrl-C."""
