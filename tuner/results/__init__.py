"""From runs to a result that can be trusted: records, scores, the protocol, statistics, and the verdict."""
