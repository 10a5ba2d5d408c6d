"""The fleet: processes on several machines that share one ledger on PostgreSQL, with one job queue, one rate and one timetable."""
