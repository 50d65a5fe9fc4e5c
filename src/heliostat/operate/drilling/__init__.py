"""What the steps of a drill ask of real clusters, and do there."""
