"""Where in its space a search has looked: at an edge, in one corner only, or everywhere."""
