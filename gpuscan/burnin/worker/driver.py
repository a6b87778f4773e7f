"""One GPU through NVIDIA's driver and nothing else: its context, memory, kernels, copies and
times, by `cuda-bindings`.
"""

import struct
import time
from array import array
from types import TracebackType
from typing import Any, NamedTuple

from gpuscan.burnin.request import INSTALL
from gpuscan.burnin.worker import cubins
from gpuscan.errors import GpuscanError

NO_BINDING = f"cuda-bindings is not installed: {INSTALL}"
NO_DRIVER = "no CUDA driver on this machine"
HANG_S = 30.0  # no launch of ours takes a second: a GPU that has not finished by then is stuck
FAREWELL_S = 3.0  # after a signal or an error: what runs then is short, or stuck
PEER_ALREADY = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
UNSTARTED = (
    "CUDA_ERROR_UNKNOWN",
    "CUDA_ERROR_OPERATING_SYSTEM",
)  # of cuInit: what it says without nvidia-uvm
HUNG = "HUNG"


class CudaError(GpuscanError):
    """The driver refused or failed: *name* is CUDA's (`CUDA_ERROR_UNKNOWN`) or HUNG, NOT_STARTED,
    NO_DRIVER, NO_BINDING.
    """

    def __init__(self, name: str, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.name = name
        self.code = code


class Kernel(NamedTuple):
    """A loaded kernel: the driver's function, and what a launch must know."""

    function: Any
    code: cubins.Code


def library() -> Any:
    """Return NVIDIA's binding; CudaError where it is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise CudaError("NO_BINDING", NO_BINDING) from error
    return driver


def start() -> Any:
    """Start the driver; return the binding."""
    cuda = library()
    try:
        checked(cuda, "cuInit", 0)
    except CudaError as error:
        if error.name in UNSTARTED:  # these speak of no GPU
            raise CudaError("NOT_STARTED", str(error), error.code) from error
        raise
    except RuntimeError as error:  # what the binding says where libcuda.so.1 is missing
        raise CudaError("NO_DRIVER", f"{NO_DRIVER} ({error})") from error
    return cuda


def checked(cuda: Any, call: str, *arguments: Any) -> Any:
    """Make a driver call; return its value (a tuple where there are several); CudaError with
    CUDA's own words.
    """
    status, *values = getattr(cuda, call)(*arguments)
    if int(status) != 0:
        raise _error(cuda, call, status)
    return values[0] if len(values) == 1 else tuple(values)


def _error(cuda: Any, call: str, status: Any) -> CudaError:
    name, text = f"CUDA error {int(status)}", ""
    for attribute in ("cuGetErrorName", "cuGetErrorString"):
        done, found = getattr(cuda, attribute)(status)
        if int(done) == 0 and found:
            name, text = (
                (found.decode(), text) if attribute == "cuGetErrorName" else (name, found.decode())
            )
    if name == "CUDA_ERROR_NO_DEVICE":
        return CudaError(name, f"the CUDA driver finds no GPU ({call}: {name})", int(status))
    return CudaError(name, f"{call}: {name}: {text}", int(status))


class CudaGpu:
    """One GPU, open in this process; frees all that it gave when it is closed.

    Addresses are plain integers, sizes bytes, times seconds. Every call may raise CudaError.
    """

    def __init__(self, address: str) -> None:
        self.cuda = start()
        self.address = address
        self.device = checked(self.cuda, "cuDeviceGetByPCIBusId", address.encode())
        self.name: str = (
            checked(self.cuda, "cuDeviceGetName", 96, self.device).split(b"\0")[0].decode()
        )
        attribute = self.cuda.CUdevice_attribute
        self.capability = (
            self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )
        self.multiprocessors = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self.fp64_ratio = self._attribute(
            attribute.CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
        )
        self.arch = cubins.architecture(self.capability)
        self._taken: dict[int, str] = {}
        self._kernels: dict[str, Kernel] = {}
        self._modules: list[Any] = []
        self._scratch = (0, 0)
        self.context = checked(self.cuda, "cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream = self.call("cuStreamCreate", 1)  # 1: does not wait for the default stream

    def __enter__(self) -> "CudaGpu":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._quiet():
            self.close()

    def _attribute(self, attribute: Any) -> int:
        return int(checked(self.cuda, "cuDeviceGetAttribute", attribute, self.device))

    def call(self, name: str, *arguments: Any) -> Any:
        """Make a driver call in this GPU's context."""
        if name != "cuCtxSetCurrent":
            checked(self.cuda, "cuCtxSetCurrent", self.context)
        return checked(self.cuda, name, *arguments)

    def free_memory(self) -> tuple[int, int]:
        """Return free and total memory in bytes."""
        free, total = self.call("cuMemGetInfo")
        return int(free), int(total)

    def take(self, size: int, host: bool = False) -> int:
        """Take memory of the GPU, or pinned memory of the host."""
        given = (
            self.call("cuMemHostAlloc", size, 1) if host else self.call("cuMemAlloc", size)
        )  # 1: pinned for every context
        address = int(given)
        self._taken[address] = "cuMemFreeHost" if host else "cuMemFree"
        return address

    def release(self, *addresses: int) -> None:
        """Give memory back."""
        for address in addresses:
            self.call(self._taken.pop(address), address)

    def has(self, name: str) -> bool:
        """Tell whether there is a kernel of this name (`persistent-bf16`) for this GPU."""
        return name in cubins.names(self.arch)

    def kernel(self, name: str) -> Kernel:
        """Load a kernel, once."""
        if name not in self._kernels:
            code = cubins.code(self.arch, name)
            module = self.call("cuModuleLoadData", code.data)
            self._modules.append(module)
            function = self.call("cuModuleGetFunction", module, code.function.encode())
            if code.shared_bytes > 48 * 1024:
                attribute = (
                    self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                )
                self.call("cuFuncSetAttribute", function, attribute, code.shared_bytes)
            self._kernels[name] = Kernel(function, code)
        return self._kernels[name]

    def launch(self, name: str, blocks: int, **arguments: int) -> None:
        """Start a kernel on this GPU's stream; arguments by the names in its source."""
        function, code = self.kernel(name)
        hidden = self._scratch_for(code.scratch_bytes * blocks) if code.scratch_bytes else 0
        values = array(
            "Q", (packed(kind, arguments[argument]) for argument, kind in code.arguments)
        )
        values.extend((hidden, 0))
        base = values.buffer_info()[0]
        pointers = array("Q", (base + 8 * place for place in range(len(values))))
        shape = (blocks, 1, 1, code.warps * 32, 1, 1, code.shared_bytes)
        self.call("cuLaunchKernel", function, *shape, self.stream, pointers.buffer_info()[0], 0)

    def _scratch_for(self, size: int) -> int:
        if self._scratch[1] < size:
            if self._scratch[0]:
                self.wait()
                self.release(self._scratch[0])
            self._scratch = (self.take(size), size)
        return self._scratch[0]

    def copy(self, target: int, source: int, size: int, stream: Any = None) -> None:
        """Start a copy, in whatever direction the addresses say; pinned host memory, this GPU or
        another.
        """
        self.call("cuMemcpyAsync", target, source, size, stream or self.stream)

    def zero(self, address: int, size: int, byte: int = 0) -> None:
        """Start to write zeros, or another byte."""
        self.call("cuMemsetD8Async", address, byte, size, self.stream)

    def words(self, address: int, count: int) -> list[int]:
        """Return 64-bit words of the GPU's memory, after all that was started has ended."""
        self.wait()
        read = array("Q", bytes(8 * count))
        self.call("cuMemcpyDtoH", read.buffer_info()[0], address, 8 * count)
        return list(read)

    def mark(self, stream: Any = None) -> Any:
        """Return an event at this point of the stream."""
        event = self.call("cuEventCreate", 0)
        self.call("cuEventRecord", event, stream or self.stream)
        return event

    def between_s(self, first: Any, last: Any) -> float:
        """Return the time between two events, which are given up."""
        self.wait_for(last)
        spent = float(self.call("cuEventElapsedTime", first, last)) / 1000
        for event in (first, last):
            self.call("cuEventDestroy", event)
        return spent

    def wait(self) -> None:
        """Wait until all that was started has ended; CudaError HUNG where it does not within
        HANG_S.
        """
        event = self.mark()
        self.wait_for(event)
        self.call("cuEventDestroy", event)

    def wait_for(self, event: Any, limit_s: float | None = None) -> None:
        """Wait for an event by asking, so that a signal is not kept waiting by a stuck GPU;
        CudaError HUNG after the limit.
        """
        limit_s = HANG_S if limit_s is None else limit_s
        began_s = time.monotonic()
        while True:
            self.call("cuCtxSetCurrent", self.context)
            (status,) = self.cuda.cuEventQuery(event)
            if int(status) == 0:
                return
            if status != self.cuda.CUresult.CUDA_ERROR_NOT_READY:
                raise _error(self.cuda, "cuEventQuery", status)
            spent_s = time.monotonic() - began_s
            if spent_s > limit_s:
                raise CudaError(
                    HUNG, f"the GPU did not finish what was started within {limit_s:g} s"
                )
            time.sleep(min(0.001, spent_s / 20))

    def _quiet(self) -> bool:
        """Tell whether all that was started ends soon: if not, freeing would wait for what may
        never end.
        """
        try:
            self.wait_for(self.mark(), FAREWELL_S)
        except CudaError:
            return False
        return True

    def reaches(self, other: "CudaGpu") -> bool:
        """Let this GPU read and write another one's memory; return whether it can (else copies go
        through the host).
        """
        if not int(checked(self.cuda, "cuDeviceCanAccessPeer", self.device, other.device)):
            return False
        try:
            self.call("cuCtxEnablePeerAccess", other.context, 0)
        except CudaError as error:
            if error.name != PEER_ALREADY:
                raise
        return True

    def free_all(self) -> None:
        """Give back all memory, after a test that ended early."""
        self.wait()
        self._scratch = (0, 0)
        self.release(*list(self._taken))

    def close(self) -> None:
        """Free all; what cannot be freed any more (the GPU is lost, a kernel failed) goes with
        the process.
        """
        steps = [(call, address) for address, call in self._taken.items()]
        steps += [("cuModuleUnload", module) for module in self._modules]
        steps.append(("cuStreamDestroy", self.stream))
        try:
            for call, what in steps:
                self.call(call, what)
            checked(self.cuda, "cuDevicePrimaryCtxRelease", self.device)
        except CudaError:
            pass
        self._taken, self._modules, self._kernels, self._scratch = {}, [], {}, (0, 0)


def packed(kind: str, value: int) -> int:
    """Return an argument as the 64-bit word whose first bytes the kernel reads.

    >>> hex(packed("i32", -1)), hex(packed("u64", 5))
    ('0xffffffff', '0x5')
    """
    if kind == "i32":
        return int(struct.unpack("<I", struct.pack("<i", value))[0])
    return value & 0xFFFFFFFFFFFFFFFF
