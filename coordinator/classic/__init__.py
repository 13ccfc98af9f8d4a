"""Classic groups: members that join, elect a leader and receive its assignment."""
