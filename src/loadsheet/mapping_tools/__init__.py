"""Beside the stages: help for whoever writes a mapping. Drafts it from a sheet, shows what it does, explains single values, makes
the shipper's template, publishes the format's JSON Schema, and compares what two mappings make of the same files.

Owns: everything that is about a mapping and not about a drop. Uses reading and mapping by their public verbs; a run never
comes here, and nothing here sends or keeps anything. Each part is imported by its own name: `lint` needs no workbook writer.
"""
