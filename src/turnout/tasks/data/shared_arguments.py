"""Builders that share their arguments, which are declared once, as the fields of a class."""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from turnout.declarations import check_fields
from turnout.tasks.data.data_task import DataTask

Arguments = ParamSpec("Arguments")
Options = TypeVar("Options")


def with_arguments_of(
    options: Callable[Arguments, Options],
) -> Callable[[Callable[[Options], DataTask]], Callable[Arguments, DataTask]]:
    """Let a builder that works on a dataclass of options take its fields as arguments of its own.

    The signature is the schema of a task's table in an experiment file, so it has to show the fields.
    """
    hints = typing.get_type_hints(options)
    fields = [field for field in dataclasses.fields(typing.cast(Any, options)) if field.init]
    fields.sort(key=lambda field: field.kw_only is True)  # those by keyword alone come last
    signature = inspect.Signature([_parameter(field, hints) for field in fields], return_annotation=DataTask)

    def decorate(builder: Callable[[Options], DataTask]) -> Callable[Arguments, DataTask]:
        @functools.wraps(builder)
        def build(*args: Arguments.args, **kwargs: Arguments.kwargs) -> DataTask:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{builder.__name__}(): {error}") from None
            given = options(*args, **kwargs)
            check_fields(given)
            return builder(given)

        build.__annotations__ = {field.name: hints[field.name] for field in fields} | {"return": DataTask}
        build.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
        return build

    return decorate


def _parameter(field: dataclasses.Field[Any], hints: dict[str, Any]) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, kind, default=default, annotation=hints[field.name])
