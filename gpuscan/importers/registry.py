"""The importers: to add one, write its module and add it to this tuple."""

from gpuscan.importers import (
    applications,
    bmc,
    daemon_logs,
    dcgm_nvlink,
    files,
    host_memory,
    ib_tools,
    infiniband,
    journal,
    logs,
    lspci,
    mlxlink,
    nccl_log,
    services,
    smi_csv,
    smi_errors,
    smi_links,
    smi_query,
    smi_table,
    smi_xml,
    tools,
)
from gpuscan.importers.part import Importer

# A line goes to the first that accepts it, so the order matters.
IMPORTERS: tuple[Importer, ...] = (
    smi_errors.IMPORTER,
    *tools.IMPORTERS,
    dcgm_nvlink.IMPORTER,
    nccl_log.IMPORTER,
    daemon_logs.IMEX,
    daemon_logs.NVLSM,
    journal.IMPORTER,
    bmc.IMPORTER,
    host_memory.EDAC_UTIL,
    host_memory.RAS_MC_CTL,
    mlxlink.IMPORTER,
    *ib_tools.IMPORTERS,
    files.IMPORTER,
    logs.FABRIC_MANAGER,
    logs.KERNEL,
    smi_table.IMPORTER,
    smi_query.IMPORTER,
    smi_xml.IMPORTER,
    smi_links.TOPOLOGY,
    smi_links.LISTING,
    lspci.IMPORTER,
    infiniband.IMPORTER,
    services.IMPORTER,
    smi_csv.IMPORTER,
    applications.IMPORTER,
    logs.BARE,
)
BY_NAME: dict[str, Importer] = {importer.name: importer for importer in reversed(IMPORTERS)}


def readable() -> str:
    """Return everything that can be judged, as one phrase for error messages and documentation."""
    formats = dict.fromkeys(importer.reads for importer in IMPORTERS)
    return (
        f"gpuscan recordings, nvidia-bug-report.log(.gz), {', '.join(formats)}, "
        "and a directory or tar of these"
    )
