"""What is on disk: logs in Kafka's format and their directory. The file system is a parameter."""
