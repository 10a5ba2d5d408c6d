"""The capsule of a run: its inputs, mappings, payloads and answers in one archive with a chain of hashes, to replay and to verify.

`making` puts a run into an archive, `sealing` is its form, `contents` what is in it; `verifying` tells whether it was changed,
`record` which ones were made here; `replaying` makes payloads and reports again from it alone, from what was known `earlier`, and
`comparing` holds them against it; `nightly` does it after every run.
"""
