"""Commands that the reader of host sources treats in their own way."""

SWEEPS = (
    "ibnetdiscover",
    "lldpcli",
)  # commands that ask the network, and take longer than one machine's own
