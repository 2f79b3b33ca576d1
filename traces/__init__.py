"""What ran on a GPU, one row per activity: from profilers' traces to operators, work, and findings on quality.

A `dispatches.Trace` enters, as any trace reader returns it; `summary.annotate` adds class,
operator, work and quality flags to each activity, and from there `summary.measurements` makes rows
of the measurement table. Start with `dispatches` (the columns), then `summary`. `classes` and
`quality` look at names and times, `activity_work` at what the framework called, `epochs` cuts a
run, `cleaning` leaves out what is not steady.
"""
