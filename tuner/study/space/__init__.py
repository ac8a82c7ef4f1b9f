"""Search spaces: what is searched, under which conditions, and in which coordinates a sampler sees it."""
