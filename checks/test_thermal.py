"""Heat and power: no card is slowed down by its own protection or by the server's power brake."""

from gpuscan import Action, Gpu, check, fail

SOURCE = "NVML clocks event reasons; NVIDIA GPU debug guidelines: cooling and power supply, not the card"


@check(action=Action.INSPECT, needs="driver.every_card_answers", source=SOURCE, impact="performance")
def test_no_hardware_slowdown(gpu: Gpu) -> None:
    """The card is not slowed down by its temperature."""
    if gpu.clock_reasons.hw_thermal:
        fail(f"hardware thermal slowdown at {gpu.temperature_c} °C: airflow, heat sink or cold plate", observed="hw_thermal")


@check(action=Action.INSPECT, needs="driver.every_card_answers", source=SOURCE, impact="performance")
def test_no_power_brake(gpu: Gpu) -> None:
    """The server's power brake is not on."""
    if gpu.clock_reasons.power_brake:
        fail("the power brake is on: power supplies, power cabling or the rack's limit", observed="power_brake")
