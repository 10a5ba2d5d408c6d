"""Stage 2: reading. Files in, tables of cells out; every cell knows file, sheet, row and column. Nothing is converted here."""
