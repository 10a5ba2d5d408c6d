"""Operations around a run: its hooks, expected files, notifications, metrics, health, traces and retention."""
