"""Real clients of a cluster whose leaders and coordinators move, and whose brokers are killed."""
