"""A rank over gloo that asks what SGLang's custom all-reduce asks before it is built: may this GPU read the others'?"""

import os

import torch
import torch.distributed as dist

from k25serve.bench.comm.messages import Teller
from k25serve.bench.comm.paths import join_world


def main() -> None:
    rank, world, teller = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Teller()
    dist.init_process_group("gloo", init_method=f"file://{os.environ['COMM_STORE']}", rank=rank, world_size=world)
    from sglang.srt.distributed.device_communicators.custom_all_reduce_utils import can_p2p

    join_world(torch.device("cpu"))
    teller.tell(rank=rank, peers=can_p2p(rank, world))
    dist.destroy_process_group()
    teller.stage("ended")


if __name__ == "__main__":
    main()
