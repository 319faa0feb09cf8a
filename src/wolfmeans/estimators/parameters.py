"""Types of parameters, and `certify`, which is a parameter of estimators and a method."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

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

P = ParamSpec("P")
R = TypeVar("R")


class ParameterAndMethod(Generic[P, R]):
    """`certify`, which is a parameter and a method: setting it sets the parameter.

    `KMeans(certify="spectral")` says which lower bound a fit computes; `km.certify(X)` computes the
    strongest one later. Reading the attribute gives the method. The parameter is read where
    scikit-learn keeps parameters: `km.get_params()["certify"]`.

    Examples
    --------
    >>> class Model:
    ...     @ParameterAndMethod
    ...     def certify(self):
    ...         return f"the parameter is {vars(self)['certify']}"
    >>> model = Model()
    >>> model.certify = "auto"
    >>> model.certify()
    'the parameter is auto'
    """

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value

    @overload
    def __get__(
        self, instance: None, owner: type | None = None
    ) -> Callable[Concatenate[Any, P], R]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[P, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._method
        return cast("Callable[P, R]", MethodType(self._method, instance))
