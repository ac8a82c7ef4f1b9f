"""Files of the user's own that were edited while a study ran: refused, or named in the verdict."""
