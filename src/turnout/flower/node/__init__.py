"""The client's side of uploads: the transformed update that it sends, and the memory of the transform."""
