"""What people look at: figures, pages, notebook views."""
