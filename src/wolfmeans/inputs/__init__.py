"""What users pass in: validation, scaling, Dask collections, files and streams."""
