"""Builders that share their arguments are shown with them, as `inspect.signature` does."""

from typing import Any

from griffe import Class, Extension, Function, Module, Parameter, ParameterKind, Parameters


class SharedArguments(Extension):
    """Give a function with the decorator `with_arguments_of` the fields of the class named there."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Look at all functions once the classes of all modules are loaded."""
        _expand(pkg)


def _expand(module: Module) -> None:
    for member in module.members.values():
        if isinstance(member, Module):
            _expand(member)
        elif isinstance(member, Function):
            for decorator in member.decorators:
                if decorator.callable_path.endswith(".with_arguments_of"):
                    options = module[str(next(iter(decorator.value.arguments)))]
                    member.parameters = Parameters(*_fields(options.final_target if options.is_alias else options))


def _fields(options: Class) -> list[Parameter]:
    fields: dict[str, Parameter] = {}
    for cls in [*reversed(options.mro()), options]:
        for name, found in cls.members.items():
            if found.is_attribute and "init=False" in str(found.value):
                fields.pop(name, None)
            elif found.is_attribute:
                kind = ParameterKind.positional_or_keyword
                fields[name] = Parameter(name, annotation=found.annotation, kind=kind, default=found.value)
    return list(fields.values())
