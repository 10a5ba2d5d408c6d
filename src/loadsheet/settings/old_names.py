"""Old names of settings, from before there were sections, with their current section and name.

Accepted until 0.7.0: from files and variables with a warning, from Python without.
"""

from collections.abc import Mapping
from typing import Any

_SAME = {
    "arrival": "settle_s done_marker unfinished_wait_s companion_wait_s file_bytes_max ignore arrived_since",
    "watch": "poll_s rescan_s retry_s retry_max_s",
    "reading": "cell_length_max record_lines_max columns_max blank_rows_max inflated_bytes_max dates_years_back dates_years_ahead",
    "translation": "parts_bytes_min",
    "dispatch": "allow_insecure proxy ca_bundle client_certificate client_key connections connections_start connect_timeout_s call_timeout_s idle_connection_s answer_bytes_max listing_bytes_max listing_timeout_s retry_after_max_s unreachable_max unknown_max outstanding_unknown_max window canary error_share_max run_entries_max finish_by",
    "verification": "parents quiesce_s status_quiesce_s confirm_gap_s fresh_witness create_after_absent trust_quiesce update_resend delete_resend quote_on_unknown status_on_unknown sends_max create_sends_max",
    "reconcile": "weight_tolerance money_tolerance unverified_share_max",
    "reports": "page_documents_max index_runs_max working_days feedback fix_rows_max language",
    "retention": "archive_days payload_days reports_days log_days backups",
    "notifications": "digest_at ping_url ping_timeout_s fixes_to fixes_mail",
    "expected_files": "expect runs_due_s",
    "schedules": "catch_up_s",
    "monitoring": "log_level log_format metrics_file health_address health_stale_s otlp_endpoint",
    "run_archive": "capsules capsule_days",
    "cluster": "database_schema takeover_s worker_places jobs_days",
}
OLD_NAMES: dict[str, tuple[str, str]] = {
    **{name: (section, name) for section, names in _SAME.items() for name in names.split()},
    "watch_with": ("watch", "method"),
    "reading_process": ("reading", "process"),
    "reading_memory_mb": ("reading", "memory_mb"),
    "reading_cpu_s": ("reading", "cpu_s"),
    "reading_wall_s": ("reading", "wall_s"),
    "reading_s_per_mb": ("reading", "s_per_mb"),
    "translation_processes": ("translation", "processes"),
    "allow_network_ledger": ("ledger", "allow_network"),
    "accept_older_ledger": ("ledger", "accept_older"),
    "exchange_connections_max": ("server", "connections_max"),
    "exchange_header_bytes_max": ("server", "header_bytes_max"),
    "exchange_header_s": ("server", "header_s"),
    "exchange_body_s": ("server", "body_s"),
    "exchange_send_s": ("server", "send_s"),
    "exchange_keep_alive_s": ("server", "keep_alive_s"),
    "exchange_calls_per_second": ("server", "calls_per_second"),
    "exchange_wrong_tokens_per_second": ("server", "wrong_tokens_per_second"),
    "exchange_database_s": ("server", "database_s"),
    "exchange_docs": ("server", "docs"),
    "notify": ("notifications", "urls"),
    "notify_file": ("notifications", "urls_file"),
    "notify_after": ("notifications", "after"),
    "notify_again_days": ("notifications", "again_days"),
    "notify_owners": ("notifications", "owners"),
    "schedule": ("schedules", "cron"),
    "schedule_zone": ("schedules", "timezone"),
}

RETIRED = {
    "batch_entries": "one process does a whole run",
    "worker_wait_s": "a run needs no worker",
}
"""Settings of 0.5.0 that have no effect any more, and why. Accepted with a warning until 0.7.0."""


def in_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with old names moved into their sections and retired ones removed. For callers in Python (`Settings(window=3)`); `sources`
    converts files and variables.
    """
    found = {name: value for name, value in values.items() if name not in OLD_NAMES and name not in RETIRED}
    for old in OLD_NAMES.keys() & values.keys():
        section, name = OLD_NAMES[old]
        there = found.get(section, {})
        table = (
            there if isinstance(there, Mapping) else {field: getattr(there, field) for field in there.model_fields_set}
        )
        found[section] = {**table, name: values[old]}
    return found
