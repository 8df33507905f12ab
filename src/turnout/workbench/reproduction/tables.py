"""A table `{ name = …, … }` of a claim: a function by its name, and its arguments checked against its signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from turnout.errors import nearest
from turnout.workbench.experiment import schema
from turnout.workbench.experiment.errors import ExperimentError, check_keys


def function_and_arguments(
    functions: Mapping[str, Callable[..., Any]], table: Any, where: str, given_by_us: tuple[str, ...]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that a table names, and its arguments, the other keys; `given_by_us` may not be keys."""
    is_named = isinstance(table, dict) and isinstance(table.get("name"), str)
    schema.expect(is_named, table, where, "a table with a name")
    name = table["name"]
    if name not in functions:
        raise ExperimentError(f"{where}: there is no {name!r}: {nearest(name, functions)}")
    function, arguments = functions[name], {key: value for key, value in table.items() if key != "name"}
    parameters = schema.parameters(function)
    check_keys(arguments, [key for key in parameters if key not in given_by_us], where)
    for key, parameter in parameters.items():
        if key in arguments and not (isinstance(arguments[key], dict) and schema.takes(parameter.hint, dict)):
            arguments[key] = schema.read_one(parameter, arguments[key], f"{where}.{key}")
        if key not in arguments and key not in given_by_us and parameter.default is schema.REQUIRED:
            raise ExperimentError(f"{where}: {key!r} is missing, expected {schema.describe(parameter.hint)}")
    return function, arguments
