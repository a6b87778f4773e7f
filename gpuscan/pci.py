"""PCI addresses, written one way."""

PCI = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"


def pci_address(text: str) -> str:
    """Return a PCI address as sysfs and lspci write it: lower case, at least 4 digits of domain,
    function .0.

    >>> pci_address("00000000:1B:00"), pci_address("0000:1b:00.0"), pci_address("00010000:03:00.0")
    ('0000:1b:00.0', '0000:1b:00.0', '10000:03:00.0')
    """
    domain, bus, rest = text.lower().split(":")
    device, _, function = rest.partition(".")
    return f"{int(domain, 16):04x}:{bus}:{device}.{function or '0'}"
