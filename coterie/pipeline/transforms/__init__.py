"""From one table to the next: functions of Spark DataFrames that read and write nothing."""
