"""Files: where data lie, downloads, checksums, and writes that are whole or absent."""
