"""What the codes of NVIDIA's driver mean: data, read only when there is an event."""
