"""A bare object is an unvalidated instance of a production class: default values, plus those that we set.

Configurations of an engine cannot be built without a model. A scheduler reads only their plain fields and the
properties that production computes from fields. A bare object has both, so that lookahead counts, in-flight limits and
the rules of speculative methods are the release's own. Reading anything else fails with its name.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any


def bare(kind: type, **values: Any) -> Any:
    """An instance of `kind` with the defaults of its fields, then `values`, and no validation.

    Values of fields that the release does not have are set as well: they do no harm, and properties may need them.
    """
    instance: Any = object.__new__(kind)
    defaults, factories = _defaults(kind)
    for name, value in defaults.items():
        object.__setattr__(instance, name, value)
    for name, factory in factories.items():
        if name not in values:
            try:
                made = factory()
            except Exception:
                continue
            object.__setattr__(instance, name, made)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


@functools.cache  # there are many engines, but few classes
def _defaults(kind: type) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """Default values of the fields of a class, and factories of default values, by name."""
    defaults, factories = {}, {}
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        default, factory = field.default, field.default_factory
        if default is not dataclasses.MISSING and type(default).__name__ == "FieldInfo":  # pydantic's own wrapper
            factory = getattr(default, "default_factory", None) or dataclasses.MISSING
            default = getattr(default, "default", dataclasses.MISSING)
            if type(default).__name__ == "PydanticUndefinedType":
                default = dataclasses.MISSING
        if default is not dataclasses.MISSING:
            defaults[field.name] = default
        elif factory is not dataclasses.MISSING:
            factories[field.name] = factory
    return defaults, factories


def accepted(function: Any, offered: dict[str, Any]) -> dict[str, Any]:
    """Those of `offered` that `function` has a parameter for. The others are left out."""
    names = parameter_names(function)
    return {name: value for name, value in offered.items() if name in names}


@functools.cache
def parameter_names(function: Any) -> frozenset[str]:
    """Names of the parameters of a function, or of the constructors of a class and its bases."""
    names: set[str] = set()
    for kind in function.__mro__ if isinstance(function, type) else (function,):
        target = kind.__dict__.get("__init__") if isinstance(kind, type) else kind
        if inspect.isfunction(target) or inspect.ismethod(target):
            names.update(inspect.signature(target).parameters)
    return frozenset(names)


@functools.cache
def source_of(thing: Any) -> str:
    """Source text of a module, class or function: a rule that cannot be called is recognised by it."""
    return inspect.getsource(thing)
