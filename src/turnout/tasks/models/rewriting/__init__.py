"""Models of any library at full speed: convolutions and poolings in other forms, in a layout that is carried along."""
