"""Subjects: what a campaign draws, judges and shrinks, and what files carry. Campaigns and commands name none of
them."""
