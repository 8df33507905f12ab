"""A model of any library at full speed: its convolutions and poolings in other forms, in a layout that is carried through."""
