"""Output for people: figures, pages, notebook views."""
