"""How data that stays in parts comes in: Dask collections, files, and chunks one by one."""
