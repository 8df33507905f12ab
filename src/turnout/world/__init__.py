"""Everything that nature decides: who is available, whose upload arrives, how much local work a client can do."""

from turnout.world.world import Nature, World, WorldState

__all__ = ["Nature", "World", "WorldState"]
