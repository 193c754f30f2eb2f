"""Which events a SASS root mnemonic may stand for, as far as rules ask: its spelling with modifiers and
operands decides which of them an instruction has. A root that is not named has no events but unknown ones.
"""

from collections.abc import Iterable, Mapping

from ptxaudit.ir import events as ev
from ptxaudit.ir.events import Completion, Proxy
from ptxaudit.ir.traits import Trait

_GENERIC = (ev.Access, Proxy.GENERIC, Completion.SYNCHRONOUS)
_CLUSTER_STORE = (ev.Access, Proxy.GENERIC, Completion.MBARRIER, ev.MbarrierCompleteTx)
_GLOBAL_STORE = (ev.Access, Proxy.GENERIC, Completion.UNOBSERVABLE)
_COPY_IN = (ev.Access, Proxy.ASYNC, Completion.MBARRIER, ev.MbarrierCompleteTx)
_COPY_OUT = (ev.Access, Proxy.ASYNC, Completion.BULK_GROUP)
_TENSOR = (ev.TensorOperation, ev.Access, Proxy.ASYNC, Proxy.GENERIC)
_TENSOR_MMA = (*_TENSOR, Completion.TCGEN05_COMMIT)
_WGMMA = (ev.WgmmaIssue, ev.GroupCommit, ev.Access, Proxy.ASYNC, Completion.WGMMA_GROUP)
_MBARRIER = (
    ev.MbarrierInit,
    ev.MbarrierInvalidate,
    ev.MbarrierExpect,
    ev.MbarrierCompleteTx,
    ev.MbarrierArrive,
    ev.MbarrierWait,
)

TRAITS: Mapping[str, tuple[Trait, ...]] = {
    **dict.fromkeys(
        ("LDG", "LDS", "LDL", "LD", "LDGMC", "STG", "STS", "STL", "ST", "ATOM", "ATOMG", "RED", "REDG"),
        _GENERIC,
    ),
    **dict.fromkeys(("LDSM", "STSM"), _GENERIC),
    "ATOMS": (*_GENERIC, ev.MbarrierArrive),
    "LDGSTS": (ev.Access, Proxy.GENERIC, Completion.ASYNC_GROUP),
    **dict.fromkeys(("PRMT", "UPRMT"), (ev.AddressMapping,)),
    "SYNCS": _MBARRIER,
    "ARRIVES": (ev.MbarrierArrive,),
    "MEMBAR": (ev.MemoryFlush,),
    "FENCE": (ev.Fence, ev.TensorOperation),
    "CCTL": (ev.L1Invalidate,),
    "UTMACCTL": (ev.Fence,),
    "BAR": (ev.CtaBarrier,),
    "WARPSYNC": (ev.WarpBarrier,),
    **dict.fromkeys(("UCGABAR_ARV", "UCGABAR_WAIT"), (ev.ClusterBarrier,)),
    "DEPBAR": (ev.GroupWait,),
    **dict.fromkeys(("LDGDEPBAR", "UTMACMDFLUSH"), (ev.GroupCommit,)),
    "WARPGROUP": (ev.WgmmaFence, ev.GroupWait),
    **dict.fromkeys(("STAS", "REDAS"), _CLUSTER_STORE),
    **dict.fromkeys(("USTGR", "UREDGR"), _GLOBAL_STORE),
    **dict.fromkeys(("UTMALDG", "UGETNEXTWORKID"), _COPY_IN),
    **dict.fromkeys(("UTMASTG", "UTMAREDG"), _COPY_OUT),
    **dict.fromkeys(("UBLKCP", "UBLKRED"), (*_COPY_IN, *_COPY_OUT)),
    "UMEMSETS": _GENERIC,
    **dict.fromkeys(("HGMMA", "QGMMA", "IGMMA", "BGMMA", "DGMMA"), _WGMMA),
    **dict.fromkeys(("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"), _TENSOR_MMA),
    **dict.fromkeys(("UTCCP", "UTCSHIFT"), _TENSOR_MMA),
    "UTCBAR": (ev.TensorOperation, ev.MbarrierArrive),
    **dict.fromkeys(("LDTM", "STTM"), (*_TENSOR, Completion.TCGEN05_WAIT)),
    **dict.fromkeys(("UTCATOMSWS", "UVIRTCOUNT"), (ev.TensorOperation,)),
    **dict.fromkeys(("EXIT", "KILL", "RET", "CALL", "BPT"), (ev.Transfer,)),
    "NANOSLEEP": (ev.Backoff,),
    **dict.fromkeys(("ACQBULK", "PREEXIT"), (ev.GridDependency,)),
    "USETMAXREG": (ev.RegisterReconfigure,),
    "ELECT": (ev.Election,),
}


def roots_with(traits: Iterable[Trait]) -> frozenset[str]:
    """The roots of which an instruction may have one of these traits."""
    wanted = frozenset(traits)
    return frozenset(root for root, own in TRAITS.items() if not wanted.isdisjoint(own))
