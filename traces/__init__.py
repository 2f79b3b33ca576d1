"""What ran on a GPU, one row per activity: from profilers' traces to operators, work and quality findings."""
