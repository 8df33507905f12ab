"""Claims of papers, checked: what a paper says, what comes out here, and whether the two agree."""
