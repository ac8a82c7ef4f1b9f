"""Words: names that were probably meant, text from outside made fit to be shown, passwords left out."""
