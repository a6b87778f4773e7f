"""From events of the log and the state of the GPUs to incidents."""
