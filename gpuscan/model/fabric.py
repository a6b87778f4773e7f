"""Records of the network that GPUs talk through."""

from typing import NamedTuple

from gpuscan.model.gpu import Counter


class Port(NamedTuple):
    """One port of an HCA. *state* reads `ACTIVE`, *phys_state* `LinkUp`; *rate_gbps* is the link's
    rate.

    *board_id* is the PSID, *hca_type* the chip (MT4129); *hca_serial* and *hca_part_number* come
    from the PCI VPD. *far_end* is what the cable leads to: `SW NAME (GUID) port 17`, of Ethernet
    `NAME port Ethernet17`; it is recorded only where cables were asked for. *active_ports* counts
    the node's InfiniBand ports that are active: with enough of them this one may be a spare.
    """

    label: str
    hca: str
    number: int
    address: str
    link_layer: str
    state: str
    phys_state: str
    rate_gbps: float
    firmware: str
    board_id: str
    hca_type: str
    node_guid: str
    hca_serial: str
    hca_part_number: str
    netdev: str
    mtu: int
    far_end: str
    link_downed: Counter
    symbol_errors: Counter
    active_ports: int
