"""Records as rows of Arrow batches, and back: what a pipeline of Spark SQL works on."""
