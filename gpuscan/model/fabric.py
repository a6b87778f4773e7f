"""Records of the network between nodes."""

from typing import NamedTuple

from gpuscan.model.gpu import Counter
from gpuscan.model.unread import Fact, Unread

NOT_READ = Unread("", "not-recorded", "outside the scope of this recording")


class AdapterLink(NamedTuple):
    """An HCA's PCIe link: lanes and speed (GT/s) now, and the most that the HCA and the slot above
    it support.
    """

    width: Fact[int]
    max_width: Fact[int]
    slot_width: Fact[int]
    speed_gts: Fact[float]
    max_speed_gts: Fact[float]
    slot_speed_gts: Fact[float]


class Adapter(NamedTuple):
    """A network adapter by NVIDIA (Mellanox) on PCI, virtual functions left out; *label* is its
    address.

    *driver* is the kernel driver bound to it, empty if none is; *infiniband* tells the class of an
    InfiniBand controller from an Ethernet one's.
    """

    label: str
    address: str
    device_id: Fact[str]
    driver: Fact[str]
    infiniband: Fact[bool]


class Port(NamedTuple):
    """One port of an HCA. *state* reads `ACTIVE`, *phys_state* `LinkUp`; *rate_gbps* is the link's
    rate.

    *board_id* is the PSID, *hca_type* the chip (MT4129); *hca_serial* and *hca_part_number* come
    from the PCI VPD. *far_end* is what the cable leads to, `SW NAME (GUID) port 17` or, for
    Ethernet, `NAME port Ethernet17`; it is read only with `--cables`. *virtual* marks an SR-IOV
    virtual function; *link* is the HCA's PCIe link; *near_gpu* the address of the GPU nearest to it
    on the bus, *gpu_gap* buses away; empty if none is in its domain. *seen_up* is whether an
    earlier run, or the recording that this one is compared with, saw the port active;
    *downs_since_run* is how often its link went down since the newest stored run of this boot,
    *run_ago_s* seconds ago. *peers* are all InfiniBand ports of the node, itself among them:
    whether a port is a rail or a spare shows only beside the others.
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
    virtual: Fact[bool] = False
    link: Fact[AdapterLink] = NOT_READ
    near_gpu: str = ""
    gpu_gap: int = 256
    seen_up: Fact[bool] = False
    downs_since_run: int = 0
    run_ago_s: float = 0.0
    peers: Fact[tuple["Port", ...]] = ()
