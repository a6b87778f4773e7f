"""Records of the network that GPUs talk through."""

from typing import NamedTuple

from gpuscan.facts.gpu import Counter


class Port(NamedTuple):
    """One InfiniBand port of an HCA. *state* reads `ACTIVE`, *phys_state* `LinkUp`; *rate_gbps* is the link's rate.

    *active_ports* counts the node's ports that are active: with enough of them this one may be a spare.
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
    link_downed: Counter
    symbol_errors: Counter
    active_ports: int
