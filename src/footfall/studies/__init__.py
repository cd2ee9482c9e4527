"""Which method at which budget: every labeller and every searcher against tokens, on worlds whose truth is known."""
