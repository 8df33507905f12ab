"""What all pages share: the shell, its assets, and colours."""
