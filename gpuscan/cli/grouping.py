"""How `gpuscan --help` groups the commands, and where a newcomer starts."""

GROUPS = {
    "Judge a node": ("diff", "judge", "log", "run", "status"),
    "Swap and repair": ("clear", "prove", "swap", "ticket"),
    "Look at a node": ("collect", "doctor", "history", "info"),
    "Look up": ("checks", "completion", "explain", "help", "profile", "schema", "version"),
}
START = (
    "gpuscan run --replay demo         a healthy node, without a GPU: start here",
    "gpuscan run --replay demo-broken  a node that needs a new GPU",
    "gpuscan run --profile h100-8x     this node, against what it should be",
    "gpuscan explain xid 79            what a code means, and what fixes it",
)
MORE = "gpuscan help COMMAND, or gpuscan COMMAND -h, shows the options of a command."
