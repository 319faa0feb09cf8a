"""wolfmeans beside other K-means libraries: the same data, the same start, the same end."""
