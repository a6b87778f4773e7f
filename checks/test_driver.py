"""The driver: loaded, in one version throughout, and able to reach every GPU."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, odd_siblings, read, warn
from gpuscan.model.nvml import ACCESS
from gpuscan.model.outcome import TO_REPLACE
from gpuscan.profile.version import satisfies


@check(action=Action.FIX_CONFIG, source="NVML return codes of nvmlInit", aliases=["driver.answers"])
def test_loaded(node: Node) -> None:
    """The NVIDIA driver is loaded, and NVML responds."""
    if node.gpus and node.driver.access in ACCESS:
        trouble = ACCESS[node.driver.access]
        stuck = [gpu for gpu, access in read(node.gpus, "access") if access == "timed-out"]
        fail(
            f"{trouble.of_node}{_versions(node)}",
            action=trouble.action,
            culprits=stuck,
            observed=node.driver.access,
            expected="ok",
        )
    else:
        # An answer is the proof: a node without GPUs need not load the driver.
        assert node.driver.nvml_process
        assert node.driver.nvml_version


def _versions(node: Node) -> str:
    """Return both versions where they differ: ` (module 535.54.03, library 580.95.05)`."""
    if node.driver.access != "mismatch":
        return ""
    driver = [node.driver]
    module = [version for _, version in read(driver, "module_version")]
    library = [version for _, version in read(driver, "library_version")]
    # NVML's own version, which it gives without the module, is that of CUDA and its driver
    library = library or [v.partition(".")[2] for _, v in read(driver, "nvml_version") if v]
    told = [
        f"{name} {versions[0]}"
        for name, versions in (("module", module), ("library", library))
        if versions and versions[0]
    ]
    return f" ({', '.join(told)})" if told else ""


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    source="NVML return codes of nvmlInit",
    imported=True,
    aliases=["driver.answers_nvidia_smi"],
)
def test_nvidia_smi(node: Node) -> None:
    """nvidia-smi can communicate with the driver.

    Judged where the input holds an error message that nvidia-smi printed.
    """
    if node.complaints and node.driver.access in ACCESS:
        trouble = ACCESS[node.driver.access]
        message = f"{trouble.of_node}{_versions(node)}"
        fail(message, action=trouble.action, observed=node.driver.access, expected="ok")


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.loaded", "driver.nvidia_smi"),
    source="nvidia-smi: No devices were found; one faulty part does not hide all GPUs at once",
    impact="capacity",
    imported=True,
    aliases=["driver.lists_a_card"],
)
def test_nvidia_smi_gpus(node: Node) -> None:
    """nvidia-smi lists at least one GPU.

    Judged where the input holds an error message that nvidia-smi printed.
    """
    if node.complaints and node.driver.nvml_count == 0:
        fail(
            "the driver is loaded but lists no GPU: check that the kernel module (open or "
            "proprietary) supports these GPUs and is bound to them",
            observed=0,
        )


@check(
    action=Action.REBOOT,
    needs=("driver.loaded", "pcie.config_space"),
    source="NVML return codes; NVIDIA GPU debug guidelines",
    impact="capacity",
    ladder=TO_REPLACE,
    window_days=7,
    aliases=["driver.every_card_answers"],
)
def test_gpu_access(gpu: Gpu) -> None:
    """The driver can communicate with the GPU.

    Of NVML's return codes some speak of the GPU whichever call returns them. "Unknown error" does
    so where NVML answers the same call for another GPU of this model: `nvidia-smi` prints ERR!.
    """
    if gpu.access == "ok":
        return
    others = [name for _, name in read([gpu], "kernel_driver") if name not in ("", "nvidia")]
    if others:
        message = f"the GPU is bound to {others[0]} instead of the NVIDIA driver"
        fail(message, action=Action.FIX_CONFIG, observed=others[0], expected="nvidia")
        return
    trouble = ACCESS[gpu.access]
    fail(trouble.of_gpu, action=trouble.action, observed=gpu.access, expected="ok")


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    source="NVML LIB_RM_VERSION_MISMATCH",
    aliases=["driver.one_version"],
)
def test_version_match(node: Node) -> None:
    """The loaded kernel module and the driver library have the same version."""
    module, library = node.driver.module_version, node.driver.library_version
    if module != library:
        fail(
            f"the kernel module is {module}, but the library is {library}",
            observed=module,
            expected=library,
        )


@check(action=Action.FIX_CONFIG, needs="driver.loaded", aliases=["driver.version_is_expected"])
def test_version(node: Node, profile: Profile) -> None:
    """The driver version is one that the profile allows."""
    version, allowed = node.driver.module_version, profile.driver.version
    if not satisfies(version, allowed):
        fail(
            f"driver {version} does not satisfy {allowed}",
            observed=version,
            expected=allowed,
        )


@check(action=Action.MONITOR, needs=("driver.loaded", "driver.version"), impact="none")
def test_recommended_version(node: Node, profile: Profile) -> None:
    """The driver version is one that the profile recommends.

    It only warns: unlike the version that a profile requires, this limit has no public source.
    """
    version, recommended = node.driver.module_version, profile.driver.recommended
    if not satisfies(version, recommended):
        warn(
            f"driver {version} does not satisfy {recommended}, which is recommended",
            observed=version,
            expected=recommended,
        )


@check(action=Action.FIX_CONFIG, needs="driver.loaded", aliases=["driver.flavour_is_expected"])
def test_flavour(node: Node, profile: Profile) -> None:
    """The kernel module is of the flavour the profile expects: open or proprietary."""
    flavour, expected = node.driver.flavour, profile.driver.flavour
    if flavour != expected:
        fail(
            f"the {flavour} kernel module is loaded, the profile expects the {expected} one",
            observed=flavour,
            expected=expected,
        )


@check(
    action=Action.FIX_CONFIG,
    source="NVIDIA driver installation guide",
    aliases=["driver.nouveau_is_not_loaded"],
)
def test_nouveau(node: Node) -> None:
    """The nouveau driver is not loaded.

    It would claim the GPUs before the NVIDIA driver does.
    """
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
    """Every GPU runs the GSP firmware of the loaded driver."""
    driver = node.driver.module_version
    others = [
        (gpu, version) for gpu, version in read(node.gpus, "gsp_firmware") if version != driver
    ]
    if others:
        which = ", ".join(f"{gpu.label} {version}" for gpu, version in others)
        fail(
            f"GSP firmware does not match driver {driver}: {which}",
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
    """All GPUs have the same VBIOS version."""
    others = odd_siblings(node.gpus, "vbios")
    if others.odd:
        warn(
            f"VBIOS differs from the other GPUs ({others.common}): {others.told}",
            culprits=others.odd,
        )


@check(
    action=Action.MONITOR,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["driver.one_inforom"],
)
def test_inforom_match(node: Node) -> None:
    """All GPUs have the same InfoROM image version."""
    others = odd_siblings(node.gpus, "inforom")
    if others.odd:
        warn(
            f"InfoROM differs from the other GPUs ({others.common}): {others.told}",
            culprits=others.odd,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["driver.vbios_is_expected"],
)
def test_vbios(gpu: Gpu, profile: Profile) -> None:
    """The VBIOS version is one that the profile allows."""
    version, allowed = gpu.vbios, profile.gpu.vbios
    if not satisfies(version, allowed):
        fail(
            f"VBIOS {version} does not satisfy {allowed}",
            observed=version,
            expected=allowed,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    impact="correctness",
    aliases=["driver.confidential_compute_is_expected"],
)
def test_confidential_compute(node: Node, profile: Profile) -> None:
    """Confidential computing is on or off as the profile expects."""
    expected, mode = profile.driver.confidential_compute, node.driver.confidential_compute
    if mode != expected:
        now, should = ("on", "off") if mode else ("off", "on")
        fail(
            f"confidential computing is {now}, the profile expects {should}",
            observed=mode,
            expected=expected,
        )
