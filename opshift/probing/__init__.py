"""What an installed backend reads, found out by trying it in a process of its own."""
