"""What clients with some rights are answered, by Kafka and by our broker."""
