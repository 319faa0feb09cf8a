"""The commands of `wolfmeans`, a file for each group; wolfmeans.commands.cli puts them together."""
