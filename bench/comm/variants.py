"""Ways to run NCCL that public reports name against hangs on PCIe. Tried, reported, never chosen in silence."""

from types import MappingProxyType

DEFAULT = "default"
# Each adds to the shell's environment.
VARIANTS = MappingProxyType(
    {
        DEFAULT: {},
        "p2p-off": {"NCCL_P2P_DISABLE": "1"},
        "cumem": {"NCCL_CUMEM_ENABLE": "1"},
        "p2p-sys": {"NCCL_P2P_LEVEL": "SYS"},
        "protocols": {"NCCL_PROTO": "LL,LL128,Simple"},
    }
)
# After a hang, in this order.
FALLBACKS = ("p2p-off", "cumem", "p2p-sys")
