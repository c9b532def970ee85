"""Campaigns: what is drawn is judged in worker processes, and what fails is saved, shrunk and counted."""
