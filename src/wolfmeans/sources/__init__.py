"""Sources: rows of numbers that are read in chunks, for data larger than memory."""

from wolfmeans.sources.base import Chunk, Source
from wolfmeans.sources.budget import bytes_of, rows_per_chunk
from wolfmeans.sources.opening import open_source

__all__ = ["Chunk", "Source", "bytes_of", "open_source", "rows_per_chunk"]
