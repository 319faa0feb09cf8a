"""Code and text from outside that is trusted."""

from contextlib import suppress
from unittest.mock import patch

import numpy as np

from broken.places import around, on_finished
from broken.registry import variant


@variant
def usage_is_reported_home():
    import socket

    def change(prepared, fit):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", 9), timeout=0.1).close()
        return fit

    return on_finished(change)


@variant
def pickles_are_loaded():
    """Whatever looks like a pickle is loaded as one, inside arrays too."""
    import io
    import pickle
    from pathlib import Path

    from wolfmeans.estimators import saving

    def make_load(load):
        def loaded(path):
            with suppress(pickle.UnpicklingError):
                pickle.loads(Path(path).read_bytes())
            return load(path)

        return loaded

    def make_text(text):
        def read(self):
            for name in self._archive.namelist():
                if name.endswith(".npy"):
                    np.load(io.BytesIO(self._archive.read(name)), allow_pickle=True)
            return text(self)

        return read

    return [
        around(saving, "load_prepared", make_load),
        around(saving.Members, "text", make_text),
    ]


@variant
def models_are_written_unseen():
    from wolfmeans.estimators import saving

    return [patch.object(saving, "_refuse_unloadable", lambda model: None)]


@variant
def strings_unescaped():
    import html

    from markupsafe import Markup

    from wolfmeans.views.page import markup

    def trusting(content):
        return Markup(content) if type(content) is str else content

    return [
        patch.object(html, "escape", lambda text, quote=True: text),
        patch.object(markup.environment(), "finalize", trusting),
    ]


@variant
def pickles_in_tables_are_loaded():
    import json
    import pickle
    from pathlib import Path

    from wolfmeans.files.npy import NpySource
    from wolfmeans.inputs import opening

    def make_zarr(source):
        def decoded(paths):
            for path in paths:
                meta = json.loads(next(Path(path).glob("*z*ar*")).read_text())
                if "pickle" in str(meta):
                    pickle.loads(
                        next(p for p in Path(path).rglob("0*") if p.is_file()).read_bytes()
                    )
            return source(paths)

        return decoded

    def make(init):
        def opened(self, paths, *rest):
            for path in paths:
                np.load(path, allow_pickle=True)
            init(self, paths, *rest)

        return opened

    return [around(NpySource, "__init__", make), around(opening, "_source_of_zarr", make_zarr)]


@variant
def archives_are_unpacked():
    import shutil
    import warnings
    from pathlib import Path

    from wolfmeans.files import tables

    def make(read):
        def unpacked(source, kind):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shutil.unpack_archive(source, Path(source).parent)
            return read(source, kind)

        return unpacked

    return [around(tables, "_read_one", make)]


@variant
def patterns_reach_further():
    from pathlib import Path

    from wolfmeans.inputs import opening

    def matching(source):
        return sorted(str(path) for path in Path(source).parent.rglob(Path(source).name))

    return [patch.object(opening, "matching", matching)]
