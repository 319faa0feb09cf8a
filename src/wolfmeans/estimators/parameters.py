"""Types of parameters, the old names that they are accepted under, and brief help."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any, Literal, Self

from wolfmeans.core.notices import warn

# What type checkers and editors know about options; their names are in `core.choices`.
Algorithm = Literal["auto", "dense", "bounds", "tree", "lloyd", "elkan"]
Stop = Literal["decrease", "gap", "shift", "stationary"]
ToleranceScale = Literal["initial", "total", "absolute"]
Empty = Literal["keep", "resample", "farthest", "best", "admissible"]
PolishKind = Literal["hartigan", "swap"]
EngineName = Literal["auto", "reference", "cpu", "gpu"]
Bound = Literal[
    "auto",
    "exact",
    "spectral",
    "neighbours",
    "prices",
    "semidefinite",
    "branching",
    "subsampled",
]
OneColumn = Literal["exact", "descent"]

_RENAMED = {"certify": "bound"}
"""Parameters by their old names. `certify` is a method, and was a parameter as well."""


def renamed(parameters: Mapping[str, Any], *, silently: bool = False) -> dict[str, Any]:
    """Return parameters under their present names, with a warning about old ones.

    Examples
    --------
    >>> renamed({"n_clusters": 3, "certify": None}, silently=True)
    {'n_clusters': 3, 'bound': None}
    """
    found = dict(parameters)
    for old, new in _RENAMED.items():
        if old not in found:
            continue
        if new in found:
            raise TypeError(f"{old} is the old name of {new}; pass only {new}")
        if not silently:
            warn(
                f"The parameter {old} is now called {new}; the old name will be removed.",
                FutureWarning,
            )
        found[new] = found.pop(old)
    return found


class RenamedParameters:
    """An estimator whose parameters are accepted under their old names, with a FutureWarning."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            given = cls.__init__

            # `wraps` keeps the signature, from which scikit-learn takes the names of parameters.
            @wraps(given)
            def init(self: Any, *arguments: Any, **parameters: Any) -> None:
                if not _RENAMED.keys().isdisjoint(parameters):
                    parameters = renamed(parameters)
                given(self, *arguments, **parameters)

            cls.__init__ = init  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return the estimator."""
        super().set_params(**renamed(params))  # type: ignore[misc]
        return self

    def __setstate__(self, state: Any) -> None:
        """Restore a pickle, also one of a version with old names."""
        super().__setstate__(renamed(state, silently=True))  # type: ignore[misc]


class BriefRequests:
    """An estimator whose `set_fit_request` and the like have one line of help instead of forty."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if name.startswith("set_") and name.endswith("_request"):
                setattr(cls, name, _BriefRequest(method))


class _BriefRequest:
    def __init__(self, request: Any) -> None:
        self._request = request

    def __get__(self, instance: Any, owner: type) -> Any:
        made = self._request.__get__(instance, owner)  # a new function each time
        made.__doc__ = "Ask for metadata, as all estimators of scikit-learn can (metadata routing)."
        return made
