"""Why something of a link is as it is, and what to do: one pure function over values."""
