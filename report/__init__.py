"""What people and machines get to read: layout, number formats, terminal, pages, JSON.

Results of the layers below enter; a `report.document.Document` is made of them, one file per topic
(`training`, `predictions`, `validation`, `ingest`, `gpus`, `projection`, ...), and `terminal`,
`html` and ``Document.data`` are its three shapes. Remarks bring their text, numbers become text
in `report.formats`. Start with `report.document`, then `report.validation`, the topic that uses all
of it; `report.run_folder` writes what training leaves.
"""
