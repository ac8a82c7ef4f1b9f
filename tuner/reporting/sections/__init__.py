"""The sections of the page; `order` has them in the order of a reader's questions."""
