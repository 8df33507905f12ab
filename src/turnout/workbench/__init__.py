"""The workbench around the core: experiments, diagnoses, reports, claims of papers and the command line."""
