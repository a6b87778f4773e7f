"""The driver: loaded, answering for every GPU, and one version throughout."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, odd, read, warn
from gpuscan.profile.version import satisfies

SILENT = {
    "not-loaded": (Action.FIX_CONFIG, "the NVIDIA kernel module is not loaded"),
    "mismatch": (
        Action.FIX_CONFIG,
        "module and library are of different versions: load the new module, or reboot",
    ),
    "no-library": (
        Action.FIX_CONFIG,
        "libnvidia-ml.so.1 is not installed where this user can load it",
    ),
    "lost": (Action.REBOOT, "the driver says that a GPU is lost"),
    "reset-required": (Action.RESET_GPU, "the driver says that a GPU needs a reset"),
    "timed-out": (Action.REBOOT, "NVML gives no answer: the driver is stuck"),
    "failed": (
        Action.FIX_CONFIG,
        'NVML cannot start and says no more than "unknown error": in a container its access to the devices was taken away '
        "(start it anew); on the host look into the kernel log",
    ),
}
ABSENT = {
    "lost": (Action.REBOOT, "the GPU is on PCI and the driver has lost it"),
    "reset-required": (Action.RESET_GPU, "the driver refuses the GPU until it is reset"),
    "timed-out": (
        Action.REBOOT,
        "a call to the GPU gave no answer: its driver or firmware is stuck",
    ),
    "unopened": (
        Action.REBOOT,
        "the driver cannot open the GPU (unknown error): most often it has fallen off the bus",
    ),
}


@check(action=Action.FIX_CONFIG, source="NVML return codes of nvmlInit", aliases=["driver.answers"])
def test_loaded(node: Node) -> None:
    """The driver is loaded and its library answers."""
    if node.gpus and node.driver.access in SILENT:
        action, words = SILENT[node.driver.access]
        stuck = [gpu for gpu, access in read(node.gpus, "access") if access == "timed-out"]
        fail(words, action=action, culprits=stuck, observed=node.driver.access, expected="ok")
    else:
        assert (
            node.driver.nvml_version
        )  # an answer is the proof; a node without GPUs need not load the driver


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    source="NVML return codes of nvmlInit",
    imported=True,
    aliases=["driver.answers_nvidia_smi"],
)
def test_nvidia_smi(node: Node) -> None:
    """Where somebody asked nvidia-smi, the driver answered it, whatever GPUs there are."""
    if node.complaints and node.driver.access in SILENT:
        action, words = SILENT[node.driver.access]
        fail(words, action=action, observed=node.driver.access, expected="ok")


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.loaded", "driver.nvidia_smi"),
    source="nvidia-smi: No devices were found; all GPUs missing at once is no matter of one part",
    impact="capacity",
    imported=True,
    aliases=["driver.lists_a_card"],
)
def test_nvidia_smi_gpus(node: Node) -> None:
    """Where somebody asked nvidia-smi, it listed a GPU."""
    if node.complaints and node.driver.nvml_count == 0:
        fail(
            "the driver is loaded and lists no GPU: is it the kernel module for these GPUs (open or proprietary), "
            "and are they bound to it?",
            observed=0,
        )


@check(
    action=Action.REBOOT,
    needs=("driver.loaded", "pcie.config_space"),
    source="NVML GPU_IS_LOST; NVIDIA GPU debug guidelines",
    impact="capacity",
    ladder=(Action.RESET_GPU, Action.REBOOT, Action.INSPECT, Action.REPLACE),
    window_days=7,
    aliases=["driver.every_card_answers"],
)
def test_gpu_access(gpu: Gpu) -> None:
    """The driver can talk to the GPU."""
    if gpu.access == "ok":
        return
    others = [name for _, name in read([gpu], "kernel_driver") if name not in ("", "nvidia")]
    if others:
        message = f"the GPU is bound to {others[0]}, not to NVIDIA's driver"
        fail(message, action=Action.FIX_CONFIG, observed=others[0], expected="nvidia")
        return
    action, words = ABSENT.get(gpu.access) or SILENT[gpu.access]
    fail(words, action=action, observed=gpu.access, expected="ok")


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    source="NVML LIB_RM_VERSION_MISMATCH",
    aliases=["driver.one_version"],
)
def test_version_match(node: Node) -> None:
    """The loaded kernel module and the library are of one version."""
    module, library = node.driver.module_version, node.driver.library_version
    if module != library:
        fail(f"the module is {module}, the library {library}", observed=module, expected=library)


@check(action=Action.FIX_CONFIG, needs="driver.loaded", aliases=["driver.version_is_expected"])
def test_version(node: Node, profile: Profile) -> None:
    """The driver's version is one that the profile allows."""
    version, allowed = node.driver.module_version, profile.driver.version
    if not satisfies(version, allowed):
        fail(f"driver {version} is not {allowed}", observed=version, expected=allowed)


@check(action=Action.FIX_CONFIG, needs="driver.loaded", aliases=["driver.flavour_is_expected"])
def test_flavour(node: Node, profile: Profile) -> None:
    """The kernel module is of the flavour that the profile wants: open or proprietary."""
    flavour, wanted = node.driver.flavour, profile.driver.flavour
    if flavour != wanted:
        fail(
            f"the {flavour} kernel module is loaded, the profile wants the {wanted} one",
            observed=flavour,
            expected=wanted,
        )


@check(
    action=Action.FIX_CONFIG,
    source="NVIDIA driver installation guide",
    aliases=["driver.nouveau_is_not_loaded"],
)
def test_nouveau(node: Node) -> None:
    """The nouveau driver is not loaded: it would take the GPUs from NVIDIA's."""
    assert "nouveau" not in node.kernel_modules, (
        "nouveau is loaded: blacklist it and rebuild the initramfs"
    )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["driver.one_gsp_firmware"],
)
def test_gsp_firmware(node: Node) -> None:
    """All GPUs run the GSP firmware of the loaded driver."""
    driver = node.driver.module_version
    others = [
        (gpu, version) for gpu, version in read(node.gpus, "gsp_firmware") if version != driver
    ]
    if others:
        told = ", ".join(f"{gpu.label} {version}" for gpu, version in others)
        fail(
            f"the GSP firmware is not the driver's {driver}: {told}",
            culprits=[gpu for gpu, _ in others],
            expected=driver,
        )


@check(
    action=Action.MONITOR,
    needs=("driver.gpu_access", "driver.vbios"),
    impact="performance",
    aliases=["driver.one_vbios"],
)
def test_vbios_match(node: Node) -> None:
    """All GPUs carry one VBIOS version."""
    others = odd(read(node.gpus, "vbios"))
    if others.odd:
        warn(
            f"the VBIOS differs from the other GPUs' {others.common}: {others.told}",
            culprits=others.odd,
        )


@check(
    action=Action.MONITOR,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["driver.one_inforom"],
)
def test_inforom_match(node: Node) -> None:
    """All GPUs carry one InfoROM image."""
    others = odd(read(node.gpus, "inforom"))
    if others.odd:
        warn(
            f"the InfoROM differs from the other GPUs' {others.common}: {others.told}",
            culprits=others.odd,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["driver.vbios_is_expected"],
)
def test_vbios(gpu: Gpu, profile: Profile) -> None:
    """The GPU carries a VBIOS version that the profile allows."""
    version, allowed = gpu.vbios, profile.gpu.vbios
    if not satisfies(version, allowed):
        fail(f"VBIOS {version} is not {allowed}", observed=version, expected=allowed)


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    impact="correctness",
    aliases=["driver.confidential_compute_is_expected"],
)
def test_confidential_compute(node: Node, profile: Profile) -> None:
    """Confidential computing is on or off as the profile wants it."""
    wanted, mode = profile.driver.confidential_compute, node.driver.confidential_compute
    if mode != wanted:
        fail(f"confidential computing is {'on' if mode else 'off'}", observed=mode, expected=wanted)
