"""Files: the data folder, downloads, checksums, and writes that are whole or absent."""
