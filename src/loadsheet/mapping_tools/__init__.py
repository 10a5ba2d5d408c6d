"""Tools for authors of mappings, outside the stages. No run uses them. They send and store nothing.

- `suggest.py`: a draft from a sheet, by `sheet_profiles`, `column_types` and `field_matching`; `suggest_payload` fills the
  payload and `yaml_writer` writes the file
- `explain.py`: the origin of each value of a document
- `comparison.py`: two mappings on the same files, and golden tests
- `template.py`: the workbook that a shipper fills in
- `reference.py`: what every key and function means, with examples; `reference_pages.py` shows it
- `json_schema.py`: the JSON Schema of mapping files
"""
