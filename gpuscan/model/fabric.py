"""Records of the network between nodes."""

from typing import NamedTuple

from gpuscan.model.gpu import Counter
from gpuscan.model.unread import Fact


class Port(NamedTuple):
    """One port of an HCA. *state* reads `ACTIVE`, *phys_state* `LinkUp`; *rate_gbps* is the link's
    rate.

    *board_id* is the PSID, *hca_type* the chip (MT4129); *hca_serial* and *hca_part_number* come
    from the PCI VPD. *far_end* is what the cable leads to, `SW NAME (GUID) port 17` or, for
    Ethernet, `NAME port Ethernet17`; it is read only with `--cables`. *active_ports* counts the
    node's active InfiniBand ports: if there are enough, this one may be a spare.
    """

    label: str
    hca: str
    number: int
    address: str
    link_layer: Fact[str]
    state: Fact[str]
    phys_state: Fact[str]
    rate_gbps: Fact[float]
    firmware: Fact[str]
    board_id: Fact[str]
    hca_type: Fact[str]
    node_guid: Fact[str]
    hca_serial: Fact[str]
    hca_part_number: Fact[str]
    netdev: Fact[str]
    mtu: Fact[int]
    far_end: Fact[str]
    link_downed: Fact[Counter]
    symbol_errors: Fact[Counter]
    active_ports: Fact[int]
