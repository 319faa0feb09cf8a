"""Points in parts: on the workers of a cluster, in a file read in chunks, or in several arrays."""
