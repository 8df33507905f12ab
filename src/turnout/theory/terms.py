"""A bound as the sum of its named terms."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Terms:
    """Base of every bound: its fields are the terms, all in the same unit, and they add up to the bound."""

    def named(self) -> dict[str, float]:
        """Each term by its name, in the order of the docstring."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def total(self) -> float:
        """The bound: the sum of the terms."""
        return float(sum(self.named().values()))

    @property
    def ruling(self) -> str:
        """Name of the largest term."""
        named = self.named()
        return max(named, key=lambda name: named[name])
