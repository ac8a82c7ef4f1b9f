"""Where studies are kept: opened with care, owned by one controller, tried again while a database is away."""
