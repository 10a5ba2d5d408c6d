"""Beside the stages: tools for authors of mappings. No run uses them, and they send and keep nothing.

- `suggest.py`: a draft from a sheet, by `sheet_profiles`, `column_types`, `vocabulary` and `field_matching`; `suggest_payload` fills the
  payload and `yaml_writer` writes the file
- `explain.py`: where each value of a document comes from
- `comparison.py`: two mappings over the same files, and golden tests
- `template.py`: the workbook that a shipper fills in
- `json_schema.py`: the JSON Schema of mapping files
"""
