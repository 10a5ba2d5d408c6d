"""Tools for authors of mappings, outside the stages. No run uses them. They send and store nothing.

- `suggest.py`: a draft from sheets. `sheet_profiles` finds the tables and their `columns`, whose types `column_types` and `notation_guesses`
  guess, by what `headings` mean; `drafts`, `field_matching`, `relations` and `compound_columns` give it its shape; `suggest_payload`, with
  `payload_parts`, fills the payload; `yaml_writer` writes the file
- `value_origins.py`: the origin of each value of a document
- `comparison.py`: two mappings on the same files, and golden tests
- `template.py`: the workbook that a shipper fills in
- `reference.py`: what every key and function means, with examples, and the JSON Schema of mapping files; `reference_pages.py` shows both
"""
