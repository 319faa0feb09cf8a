"""The commands of `wolfmeans`, a file for each group; wolfmeans.cli puts them together."""
