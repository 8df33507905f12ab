"""Fields are documented by the comment beside them; the reference shows it."""

import ast
import io
import tokenize
from typing import Any

from griffe import Attribute, Docstring, Extension


class FieldComments(Extension):
    """Take the comment at the end of a field's line as its docstring."""

    def on_attribute_instance(self, *, node: Any, attr: Attribute, **_: Any) -> None:
        """Look at the field's own lines; a docstring of its own goes before."""
        in_class = attr.parent is not None and attr.parent.is_class
        if not in_class or attr.docstring is not None or not isinstance(node, ast.AnnAssign):
            return
        file = attr.filepath
        lines = [] if isinstance(file, list) else attr.lines_collection[file][node.lineno - 1 : node.end_lineno]
        comment = _comment("\n".join(lines))
        if comment:
            attr.docstring = Docstring(comment[0].upper() + comment[1:] + ".", parent=attr)


def _comment(source: str) -> str:
    """The last comment of some lines of code."""
    found = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.strip()).readline):
            if token.type == tokenize.COMMENT:
                found = token.string.lstrip("# ").removesuffix(".")
    except tokenize.TokenError:  # lines of a longer statement
        pass
    return found
