"""The cluster: processes on several machines that share a PostgreSQL database, with one job queue, one rate and one timetable."""
