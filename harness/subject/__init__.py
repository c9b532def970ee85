"""Subjects: what a campaign draws, judges and shrinks, and what files carry. Campaigns and commands do not name any of
them."""
