"""`certify`: a parameter of the estimators, and the method that improves a certificate afterwards.

`KMeans(certify="spectral")` says which lower bound a fit looks for; `km.certify(X)` looks for the
strongest one later. Both names are wanted, so the attribute is the method, and the parameter is
read where scikit-learn keeps parameters: `km.get_params()["certify"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any


class ParameterAndMethod:
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

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._method if instance is None else MethodType(self._method, instance)
