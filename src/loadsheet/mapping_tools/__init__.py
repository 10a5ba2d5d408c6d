"""Tools for authors of mappings, outside the stages. No run uses them. They send and store nothing.

- `suggest.py`: a draft from a sheet, by `sheet_profiles`, `target_choice`, `field_matching` and `relations`; `suggest_payload` fills the
  payload and `yaml_writer` writes the file
- `explain.py`: the origin of each value of a document
- `comparison.py`: two mappings on the same files, and golden tests
- `template.py`: the workbook that a shipper fills in
- `json_schema.py`: the JSON Schema of mapping files
"""
