"""Stage 3: mapping. Mapping files; cells -> converted values -> nested, validated documents, with lineage."""
