"""Claims of papers: page, figures and table."""
