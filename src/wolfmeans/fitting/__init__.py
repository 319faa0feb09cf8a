"""One fit: starts, the loop, polish and search, the certificate; clusterings of others."""
