"""Stage 3: mapping. Mapping files; cells -> converted values -> nested, validated documents, with lineage.

The path of a mapping file: `yamlfile` (its files, and the copy that lets it be used again later) -> `schema` (what may be written) -> `compile`
-> `table_planning`, `conversion` and `names` -> `plans` (the compiled tables as values) and `payload` with `leaves` (the compiled record).

The path of a row: `rows` (its cells become values) -> `grouping` (the rows of one record) -> `translator` (its document) with
`document_checks` -> `documents` (the results, and which cell a payload value came from).

- `conversion`: how the cells of a column are read, with `notations` (numbers, dates), `texts`, `codes` (countries, currencies), `units` and
  `lookups` (code tables); `layouts` says it to shippers
- `expressions`: rules and calculations, with `expression_parser`, `calculation` (the functions) and `type_errors`
- `reference_tables`: tables in which others look up rows; `near_keys`: why a row has no partner
- `routing`: which file belongs to which mapping, by `file_patterns`
- `plausibility`: columns read in the wrong notation, lines that appear twice, dates far from today

Import names from their modules: the ledger needs the values of documents, and no parser.
"""
