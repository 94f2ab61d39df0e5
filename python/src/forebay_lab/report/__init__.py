"""The report on runs: one document, as HTML and as PDF, whose figures are computed from the raw rows."""
