"""What a run has shown: tables, figures, and a result in plain words."""
