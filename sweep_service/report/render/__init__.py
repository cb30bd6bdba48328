"""The report as HTML, Markdown, CSV and pictures, and the model card of an exported model."""
