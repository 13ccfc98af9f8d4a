"""The broker as a process: sockets, threads, clocks and logs. Groups are in coterie.coordinator."""
