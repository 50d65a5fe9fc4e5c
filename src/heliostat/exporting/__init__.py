"""Records of any topic as files, or in another topic."""
