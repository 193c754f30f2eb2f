"""What synchronisation costs, by measurement."""
