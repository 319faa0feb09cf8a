"""Sources: rows of numbers that are read in chunks, for data larger than memory."""

from wolfmeans.sources.base import Chunk, Source
from wolfmeans.sources.budget import Budget, bytes_of
from wolfmeans.sources.opening import open_source

__all__ = ["Budget", "Chunk", "Source", "bytes_of", "open_source"]
