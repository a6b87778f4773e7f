"""The driver: loaded, answering for every card, and one version throughout."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, read
from gpuscan.version import satisfies

SILENT = {
    "not-loaded": (Action.FIX_CONFIG, "the NVIDIA kernel module is not loaded"),
    "mismatch": (Action.FIX_CONFIG, "module and library are of different versions: load the new module, or reboot"),
    "no-library": (Action.FIX_CONFIG, "libnvidia-ml.so.1 is not installed where this user can load it"),
    "lost": (Action.REBOOT, "the driver says that a card is lost"),
    "reset-required": (Action.RESET_GPU, "the driver says that a card needs a reset"),
    "timed-out": (Action.REBOOT, "NVML gives no answer: the driver is stuck"),
}
ABSENT = {
    "lost": (Action.REBOOT, "the card is on PCI and the driver has lost it"),
    "reset-required": (Action.RESET_GPU, "the driver refuses the card until it is reset"),
    "timed-out": (Action.REBOOT, "a call to the card gave no answer: its driver or firmware is stuck"),
}


@check(action=Action.FIX_CONFIG, source="NVML return codes of nvmlInit")
def test_answers(node: Node) -> None:
    """The driver is loaded and its library answers."""
    if node.gpus and node.driver.access in SILENT:
        action, words = SILENT[node.driver.access]
        stuck = [gpu for gpu, access in read(node.gpus, "access") if access == "timed-out"]
        fail(words, action=action, culprits=stuck, observed=node.driver.access, expected="ok")
    else:
        assert node.driver.nvml_version  # an answer is the proof; a node without cards need not load the driver


@check(action=Action.REBOOT, needs="driver.answers", source="NVML GPU_IS_LOST; NVIDIA GPU debug guidelines", impact="capacity")
def test_every_card_answers(gpu: Gpu) -> None:
    """The driver can talk to the card."""
    if gpu.access != "ok":
        action, words = ABSENT.get(gpu.access) or SILENT[gpu.access]
        fail(words, action=action, observed=gpu.access, expected="ok")


@check(action=Action.FIX_CONFIG, needs="driver.answers", source="NVML LIB_RM_VERSION_MISMATCH")
def test_one_version(node: Node) -> None:
    """The loaded kernel module and the library are of one version."""
    module, library = node.driver.module_version, node.driver.library_version
    if module != library:
        fail(f"the module is {module}, the library {library}", observed=module, expected=library)


@check(action=Action.FIX_CONFIG, needs="driver.answers")
def test_version_is_expected(node: Node, profile: Profile) -> None:
    """The driver's version is one that the profile allows."""
    version, allowed = node.driver.module_version, profile.driver.version
    if not satisfies(version, allowed):
        fail(f"driver {version} is not {allowed}", observed=version, expected=allowed)
