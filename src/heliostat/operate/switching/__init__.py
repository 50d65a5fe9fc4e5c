"""What the steps of a planned switch ask of real clusters, and do there."""
