"""Names of data-centre GPUs by PCI device id, for GPUs that no driver names.

Source: the PCI ID repository (pci-ids.ucw.cz) and the names that NVIDIA's driver gives.
"""

NAMES = {
    "10de:1db1": "V100 SXM2 16GB",
    "10de:1db4": "V100 PCIe 16GB",
    "10de:1db5": "V100 SXM2 32GB",
    "10de:1db6": "V100 PCIe 32GB",
    "10de:1eb8": "T4",
    "10de:20b0": "A100 SXM4 40GB",
    "10de:20b2": "A100 SXM4 80GB",
    "10de:20b5": "A100 PCIe 80GB",
    "10de:20b7": "A30",
    "10de:20f1": "A100 PCIe 40GB",
    "10de:20f3": "A800 SXM4 80GB",
    "10de:2236": "A10",
    "10de:2321": "H100 NVL",
    "10de:2324": "H800 SXM5",
    "10de:2329": "H20",
    "10de:2330": "H100 SXM5",
    "10de:2331": "H100 PCIe",
    "10de:2335": "H200 SXM",
    "10de:233b": "H200 NVL",
}


def model_name(device_id: str) -> str:
    """Return a GPU's name, with its device id where that is not known.

    >>> model_name("10de:2330"), model_name("10de:ffff")
    ('H100 SXM5', 'NVIDIA GPU 10de:ffff')
    """
    name = NAMES.get(device_id)
    return name or f"NVIDIA GPU {device_id}"
