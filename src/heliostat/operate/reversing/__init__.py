"""Parts of the way back: what is looked at, recreated, set back and written."""
