"""The topology of a streams group, brought together with the topics that exist: its tasks."""
