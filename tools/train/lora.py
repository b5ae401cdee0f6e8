"""Trains an adapter (LoRA) of the bundled model, of a style that `render.py` knows or of a folder of pictures.

    python lora.py outline --minutes 20 --work build/lora --out ../../models/bundled/adapters
    python lora.py mine --pictures FOLDER --minutes 5 --out build/adapters

The captions of a style are those of the base training and say nothing of it: prompts stay as they are, and the
adapter shows it in everything. The base is frozen. Each linear of the blocks' attention and feed-forward gets a
low-rank branch; while training it is added to the weight, which is the same function, and lets the fast forward of
`transformer.py` serve unchanged.
"""

import argparse
import math
from pathlib import Path

import torch
from diffusers import WanTransformer3DModel
from tokenizers import Tokenizer
from torch.nn.utils import parametrize
from transformers import UMT5EncoderModel

import adapter_files
import loop
import pool
from render import STYLES
from transformer import _block, BATCH, Batches, encode_text, forward, PERMUTATION, rotary, to_training

# All linears of a block: other programs' readers of adapters want them complete.
MODULES = [f"{attention}.{part}" for attention in ("attn1", "attn2") for part in ("to_q", "to_k", "to_v", "to_out.0")]
MODULES += ["ffn.net.0.proj", "ffn.net.2"]
# Unlike its rank, so that a program that forgets it shows.
ALPHAS = {"outline": 8}
SHARES = {"image64": 0.24, "image96": 0.38, "clip64": 0.06, "clip96": 0.08, "edit64": 0.07, "edit96": 0.12, "ends64": 0.02,
          "ends96": 0.03}


class LowRank(torch.nn.Module):
    """weight + alpha / rank * up @ down; starts as no change."""

    def __init__(self, weight: torch.Tensor, rank: int, alpha: float):
        super().__init__()
        rows, columns = weight.shape
        self.down = torch.nn.Parameter(torch.randn(rank, columns) / math.sqrt(columns))
        self.up = torch.nn.Parameter(torch.zeros(rows, rank))
        self.scale = alpha / rank

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.scale * (self.up @ self.down)


def attach(model: WanTransformer3DModel, rank: int, alpha: float) -> dict[str, LowRank]:
    """Freezes the model and gives each target a branch, by the module's name."""
    model.requires_grad_(False)
    branches = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and name.startswith("blocks.") and name.endswith(tuple(MODULES)):
            branches[name] = LowRank(module.weight, rank, alpha)
            parametrize.register_parametrization(module, "weight", branches[name])
    return branches


def factors(branches: dict[str, LowRank]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The branches' (down, up) by module, in diffusers' rotary layout."""
    result = {}
    for name, branch in branches.items():
        up = branch.up.detach()
        if name.endswith(("attn1.to_q", "attn1.to_k")):
            up = up[PERMUTATION.argsort()]
        result[name] = branch.down.detach(), up
    return result


def train(args):
    """Encodes the pictures once, then trains until the minutes are spent; repeat to go on."""
    base, work = Path(args.model), Path(args.work) / args.name
    work.mkdir(parents=True, exist_ok=True)
    log, path = loop.Log(work / "lora.log"), work / "lora.pt"
    tokenizer = Tokenizer.from_file(str(base / "tokenizer" / "tokenizer.json"))
    if not (work / "pool.pt").exists():
        autoencoder = pool.Encoder(base / "vae")
        encoded = pool.read(autoencoder, tokenizer, Path(args.pictures)) if args.pictures else pool.draw(
            autoencoder, tokenizer, args.seed, args.pool_scale, loop.Budget(1e9, args.pause_file), log,
            STYLES[args.name])
        loop.save_checkpoint(work / "pool.pt", encoded)
    encoder = UMT5EncoderModel.from_pretrained(base / "text_encoder", torch_dtype=torch.float32).eval()
    model = WanTransformer3DModel.from_pretrained(base / "transformer", torch_dtype=torch.float32)
    model.load_state_dict(to_training(model.state_dict()))
    branches = attach(model, args.rank, args.alpha)
    parameters = [p for branch in branches.values() for p in branch.parameters()]
    adam = torch.optim.AdamW(parameters, lr=args.lr, betas=(0.9, 0.98), weight_decay=0.0)
    average = loop.Average(parameters, 0.995)
    step, spent = 0, 0.0
    if state := loop.load_checkpoint(path):
        for name, branch in branches.items():
            branch.load_state_dict(state["branches"][name])
        adam.load_state_dict(state["adam"])
        average.values, average.steps = state["average"], state["step"]
        step, spent = state["step"], state["spent"]
        torch.manual_seed(args.seed + step)
    batches = Batches(torch.load(work / "pool.pt"), tokenizer, args.seed + step)
    kinds = list(batches.pool)
    log(parameters=sum(p.numel() for p in parameters))
    torch._dynamo.config.cache_size_limit = 64
    block = torch.compile(_block, dynamic=False) if args.compile else _block
    angles = {k: rotary(model, frames, size // 16) for k, (size, _, _, frames) in pool.KINDS.items()}
    budget = loop.Budget(args.minutes, args.pause_file, spent)
    saving, reporting, sums = loop.Every(60, spent), loop.Every(20, spent), {}

    def checkpoint():
        loop.save_checkpoint(path, {
            "branches": {name: branch.state_dict() for name, branch in branches.items()}, "adam": adam.state_dict(),
            "average": average.values, "step": step, "spent": budget.spent})

    while budget.tick():
        name = batches.random.choices(kinds, [SHARES[k] for k in kinds])[0]
        b = batches.draw(name, BATCH[name])
        with torch.no_grad():
            context, bias, _, _ = encode_text(encoder, b["ids"], b["counts"])
        v = forward(model, b["tokens"], b["times"], b["first"], context, bias, angles[name], block)
        flow = ((v - b["target"]).square() * b["weight"]).sum() / (b["weight"].sum() * v.shape[2])
        adam.zero_grad()
        flow.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        factor = loop.warmup_cosine(step, budget.fraction, warmup=30, flat=0.3, floor=0.02)
        for group in adam.param_groups:
            group["lr"] = args.lr * factor
        adam.step()
        average.update()
        step += 1
        total = sums.setdefault(name, [0.0, 0])
        total[0] += flow.item()
        total[1] += 1
        if reporting(budget.spent):
            log(name=args.name, minute=budget.spent / 60, step=step, lr=factor,
                **{k: s / n for k, (s, n) in sums.items()})
            sums = {}
        if saving(budget.spent):
            checkpoint()
    checkpoint()
    average.swap()
    paths = adapter_files.write(Path(args.out), args.name, factors(branches), args.alpha)
    log(name=args.name, done=not budget.stopped, step=step, bytes=[p.stat().st_size for p in paths])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help=f"name of the adapter; without --pictures a style: {', '.join(STYLES)}")
    parser.add_argument("--pictures", help="folder of pictures, each with its caption in a .txt of the same name")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--alpha", type=float, help="times 1/rank, a power of two; rank when left out, 8 for outline")
    parser.add_argument("--model", default="../../models/bundled", help="pipeline folder of the base")
    parser.add_argument("--work", default="build/lora")
    parser.add_argument("--out", default="../../models/bundled/adapters")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--pool-scale", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pause-file")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    if not args.pictures and args.name not in STYLES:
        parser.error(f"'{args.name}' is no style ({', '.join(STYLES)}); give a folder of pictures by --pictures")
    args.alpha = args.alpha or ALPHAS.get(args.name, args.rank)
    loop.setup(args.threads, args.seed)
    train(args)


if __name__ == "__main__":
    main()
