"""Files: tables read whole, sources read in chunks, and files that are written atomically."""
