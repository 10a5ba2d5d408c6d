"""The capsule of a run: its inputs, mappings, payloads and answers in one archive with a hash chain, to replay and verify.

`create` puts a run into an archive, on request or after every run. `contents` defines the archive and its members.
`verify` checks whether it was changed, and records the archives made here. `replay` makes payloads and reports again
from the archive alone; `replay_diff` compares them with the originals.
"""
