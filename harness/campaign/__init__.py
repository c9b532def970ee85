"""Campaigns: cases are drawn and judged in worker processes, and failures are saved, shrunk and counted."""
