"""
The control plane of muster. Use muster and muster.distributed; this module may change.
"""

from collections.abc import Callable, Mapping, Sequence

__version__: str

class RefusedError(RuntimeError):
    """What was asked for is well-formed, but it does not fit or is busy."""


def parse_byte_count(text: str) -> int:
    """Bytes from a text such as "20GiB"."""

def parse_duration(text: str) -> int:
    """Milliseconds from a text such as "10m"."""

class Holder:
    """Who leases a GPU, as far as it is known."""

    @property
    def pid(self) -> int | None: ...

    @property
    def user(self) -> str | None: ...

    @property
    def command(self) -> str | None: ...

    @property
    def since(self) -> int | None:
        """Seconds since 1970."""

    def __str__(self) -> str: ...

class MigInstance:
    """A slice of a GPU in MIG mode."""

    @property
    def uuid(self) -> str: ...

    @property
    def memory_total(self) -> int | None: ...

    @property
    def name(self) -> str | None: ...

class Gpu:
    """
    One GPU of this machine at one moment. Memory in bytes; None: not known.
    """

    @property
    def index(self) -> int: ...

    @property
    def uuid(self) -> str | None: ...

    @property
    def name(self) -> str | None: ...

    @property
    def compute_capability(self) -> str | None: ...

    @property
    def multiprocessor_count(self) -> int | None: ...

    @property
    def memory_total(self) -> int | None: ...

    @property
    def memory_used(self) -> int | None: ...

    @property
    def memory_free(self) -> int | None: ...

    @property
    def utilization(self) -> int | None: ...

    @property
    def mig_instances(self) -> list[MigInstance]: ...

    @property
    def sickness(self) -> str | None: ...

    @property
    def lost(self) -> bool: ...

class VisibleDevice:
    """One device behind a mask: a GPU or one of its MIG instances."""

    @property
    def index(self) -> int:
        """The physical GPU."""

    @property
    def mig(self) -> int | None:
        """Which of the GPU's instances; None: the whole GPU."""

    @property
    def uuid(self) -> str | None: ...

    @property
    def entry(self) -> str:
        """How a mask names it."""

class HostView:
    """One look at the GPUs, the mask and the leases of this machine."""

    @property
    def mask(self) -> str | None:
        """CUDA_VISIBLE_DEVICES; None: not set."""

    @property
    def visible(self) -> list[VisibleDevice]:
        """What the mask shows; the position is the id."""

    @property
    def gpus(self) -> list[Gpu]: ...

    @property
    def explanation(self) -> str:
        """Why the machine shows no GPU; empty when it shows any."""

    def gpu_of(self, device: VisibleDevice) -> Gpu: ...

    def holder_of(self, device: VisibleDevice) -> Holder | None:
        """Who leases the device, if anyone."""

    def mask_for(self, chosen: Sequence[int]) -> str:
        """The mask that shows these ids of this view, in this order."""

class CudaView:
    """What CUDA itself makes of a mask."""

    @property
    def devices(self) -> list[VisibleDevice]: ...

    @property
    def cut(self) -> str | None:
        """Why CUDA drops part of the list; None when all of it counts."""

def read_as_cuda(text: str | None, view: HostView) -> CudaView:
    """
    CUDA's reading of a mask over the GPUs of a view; None: the variable is not set.
    """

def read_mask(text: str | None, view: HostView) -> list[VisibleDevice]:
    """
    The devices behind a mask; ValueError where CUDA would drop part of it.
    """

class SelectionRequest:
    """Which GPUs are asked for. Sizes in bytes."""

    def __init__(
        self,
        *,
        ids: Sequence[str] = ...,
        count: int | None = None,
        minimum_free: int | None = None,
        model_size: int | None = None,
        margin: float = 1.5,
        allow_leased: bool = False,
        allow_unhealthy: bool = False,
    ) -> None: ...

class Grant:
    """GPUs that are this process's to use, until released."""

    @property
    def devices(self) -> list[VisibleDevice]:
        """In the order of use."""

    @property
    def mask(self) -> str:
        """CUDA_VISIBLE_DEVICES for a child that may use them all."""

    @property
    def environment(self) -> list[tuple[str, str]]:
        """Everything a child needs."""

    def descriptors(self) -> list[int]: ...
    def release(self) -> None:
        """Gives the GPUs back; a second call does nothing."""

class Host:
    """This machine's GPUs as this process may use them."""

    def __init__(self) -> None:
        """Reads the environment as it is now."""

    def look(self, everything: bool = True) -> HostView:
        """everything=False: identities and memory alone, quicker."""

    def pick(self, request: SelectionRequest) -> list[int]:
        """Chooses visible ids without taking them."""

    def hold(
        self,
        request: SelectionRequest,
        command: str,
        *,
        share: bool = False,
        wait: int | None = None,
        on_waiting: Callable[[str], None] | None = None,
    ) -> Grant:
        """
        Chooses and leases as one step. wait: at most that many milliseconds; None: now or not at all.
        """

class AnsweredPlan:
    """A plan, for people, for programs and as a picture."""

    @property
    def notes(self) -> list[str]: ...
    def json(self) -> str: ...
    def text(self) -> str: ...
    def save_picture(self, path: str) -> None: ...
    def smallest_set(self, numbers: Sequence[int], margin: float) -> list[int]: ...

def answer_plan(options: Sequence[tuple[str, Sequence[str]]], gpus_from: str | None) -> AnsweredPlan: ...

class ModelShape:
    """The modules and tensors of a model, without their values."""

    def __init__(
        self,
        modules: Sequence[
            tuple[str, str, int | None, Sequence[tuple[str, Sequence[int], str, bool, int | None]]]
        ],
        whole_classes: Sequence[str],
    ) -> None: ...
    @property
    def whole_classes(self) -> list[str]: ...

class CompatRequest:
    """The arguments of accelerate's planner."""

    clean: bool
    fallback_allocation: bool
    limits_given: bool
    def __init__(
        self, element_bytes: float | None, special_elements: Mapping[str, float], whole_classes: Sequence[str]
    ) -> None: ...

def read_shape(model: str, type: str | None) -> ModelShape: ...
def balanced_budgets(
    shape: ModelShape, request: CompatRequest, budgets: Sequence[tuple[str, int, float]], low_zero: bool
) -> list[tuple[str, int, float]]: ...
def compat_map(
    shape: ModelShape, request: CompatRequest, budgets: Sequence[tuple[str, int, float]]
) -> list[tuple[str, str]]: ...
def largest_and_total(shape: ModelShape) -> tuple[float, float]: ...
def weigh(shape: ModelShape, type: str) -> tuple[int, int, int]: ...
def free_host_memory() -> int | None: ...
