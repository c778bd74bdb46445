"""One module a verb: each holds a plain function that returns an exit code."""
