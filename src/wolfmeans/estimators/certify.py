"""`certify`: a parameter of the estimators, and the method that improves a certificate afterwards.

`KMeans(certify="spectral")` says which lower bound a fit looks for; `km.certify(X)` looks for the
strongest one later. The parameter and the method share a name, so the attribute is the method, and
the parameter is read where scikit-learn keeps parameters: `km.get_params()["certify"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

P = ParamSpec("P")
R = TypeVar("R")


class ParameterAndMethod(Generic[P, R]):
    """Setting the attribute sets the parameter; reading it gives the method.

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
