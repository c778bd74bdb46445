"""What the repository says: facts, each with file and line; nothing of the target is run."""
