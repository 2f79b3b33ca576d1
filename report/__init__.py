"""What users see: tables on the terminal, figures, the page, and the run folder."""
