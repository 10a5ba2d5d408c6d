"""Operations around a run: expected files, notifications, monitoring and retention."""
