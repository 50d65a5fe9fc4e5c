"""Records of a source that never crossed before its mirrors were given away."""
