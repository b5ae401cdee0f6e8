"""The transformer: a `WanTransformer3DModel`, trained by flow matching together with the text encoder.

Three things make this fast on a CPU and stay exact:
- The pipeline pads prompts with zero rows to 512 and does not mask them. All these rows are one key and one
  value, so training sees one zero row with the logarithm of their number as an additive bias.
- Rotary embedding pairs neighbouring channels. While training, the rows of the query and key projections are
  permuted so that pairs lie half a head apart (`to_training`); `to_diffusers` undoes it.
- One block is compiled, once per shape, with its weights as arguments, and serves all layers.
"""

import copy
import math
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from tokenizers import Tokenizer
from transformers import UMT5EncoderModel

import data
import loop
import text_encoder
from muon import Muon
from pool import KINDS, unpatchify

HEADS, HEAD, LAYERS, FFN, CHANNELS = (6, 32, 8, 768, 16) if data.EMOJI else (5, 32, 7, 640, 16)
WIDTH = HEADS * HEAD
PADDED = 512
# Samples per step, chosen for about 2,500 tokens, and the share of steps before and after `--clips-from`.
# CLIPS takes the place of LATE with `--mix clips`.
BATCH = {"image64": 160, "image96": 64, "clip64": 56, "clip96": 24, "edit64": 80, "edit96": 36, "ends64": 40, "ends96": 18}
EARLY = {"image64": 0.1, "image96": 0.9} if data.EMOJI else {"image64": 0.5, "image96": 0.5}
LATE = {"image64": 0.08, "image96": 0.10, "clip64": 0.08, "clip96": 0.08, "edit64": 0.26, "edit96": 0.32, "ends64": 0.04,
        "ends96": 0.04}
CLIPS = {"image64": 0.08, "image96": 0.09, "clip64": 0.15, "clip96": 0.14, "edit64": 0.19, "edit96": 0.21, "ends64": 0.07,
         "ends96": 0.07}
_HALVES = torch.cat([torch.arange(0, HEAD, 2), torch.arange(1, HEAD, 2)])
PERMUTATION = torch.cat([_HALVES + HEAD * i for i in range(HEADS)])


def build() -> WanTransformer3DModel:
    """A fresh transformer whose output starts at zero and whose modulation starts small."""
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=HEADS, attention_head_dim=HEAD, in_channels=CHANNELS,
        out_channels=CHANNELS, text_dim=text_encoder.WIDTH, freq_dim=256, ffn_dim=FFN, num_layers=LAYERS,
        cross_attn_norm=True, qk_norm="rms_norm_across_heads", rope_max_seq_len=256)
    with torch.no_grad():
        model.proj_out.weight.zero_()
        model.proj_out.bias.zero_()
        model.condition_embedder.time_proj.weight.mul_(0.3)
        for block in model.blocks:
            block.attn1.to_out[0].weight.mul_(0.5)
            block.attn2.to_out[0].weight.mul_(0.5)
    return model


def _permuted(state: dict, order: torch.Tensor) -> dict:
    rotary = ("to_q", "to_k", "norm_q", "norm_k")
    return {k: v[order].clone() if ".attn1." in k and any(r in k for r in rotary) else v.clone()
            for k, v in state.items()}


def to_training(state: dict) -> dict:
    """A state dict in diffusers' rotary layout (neighbours) as this file's (halves)."""
    return _permuted(state, PERMUTATION)


def to_diffusers(state: dict) -> dict:
    """The inverse of `to_training`."""
    return _permuted(state, PERMUTATION.argsort())


def _linear(x, weight, bias):
    return F.linear(x, weight.to(torch.bfloat16), bias.to(torch.bfloat16))


def _rms(x, weight):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _attend(q, k, v, bias=None):
    """Plain softmax attention over [B, heads, N, HEAD]; the fused kernel's bf16 backward is slow for short rows."""
    scores = (q @ k.mT).float() * HEAD**-0.5
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2)


def _block(h, context, modulation, cos, sin, bias, weights):
    """One transformer block on h [B, N, WIDTH] (f32); modulation [B, 1 or N, 6, WIDTH]."""
    (table, q1, q1b, k1, k1b, v1, v1b, o1, o1b, nq1, nk1, n2, n2b, q2, q2b, k2, k2b, v2, v2b, o2, o2b, nq2, nk2,
     up, upb, down, downb) = weights
    b, n, _ = h.shape
    shift1, scale1, gate1, shift2, scale2, gate2 = (modulation + table[:, None]).unbind(2)

    def heads(x):
        return x.view(b, -1, HEADS, HEAD).transpose(1, 2)

    def rotate(x):
        left, right = heads(x).chunk(2, -1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1).to(torch.bfloat16)

    x = (F.layer_norm(h, (WIDTH,), eps=1e-6) * (1 + scale1) + shift1).to(torch.bfloat16)
    q, k = rotate(_rms(_linear(x, q1, q1b), nq1)), rotate(_rms(_linear(x, k1, k1b), nk1))
    h = h + _linear(_attend(q, k, heads(_linear(x, v1, v1b))), o1, o1b) * gate1
    x = F.layer_norm(h, (WIDTH,), n2, n2b, eps=1e-6).to(torch.bfloat16)
    q = heads(_rms(_linear(x, q2, q2b), nq2).to(torch.bfloat16))
    k = heads(_rms(_linear(context, k2, k2b), nk2).to(torch.bfloat16))
    h = h + _linear(_attend(q, k, heads(_linear(context, v2, v2b)), bias), o2, o2b)
    x = (F.layer_norm(h, (WIDTH,), eps=1e-6) * (1 + scale2) + shift2).to(torch.bfloat16)
    return h + _linear(F.gelu(_linear(x, up, upb), approximate="tanh"), down, downb) * gate2


def _weights(block) -> list[torch.Tensor]:
    result = [block.scale_shift_table]
    for attention in (block.attn1, block.attn2):
        for linear in (attention.to_q, attention.to_k, attention.to_v, attention.to_out[0]):
            result += [linear.weight, linear.bias]
        result += [attention.norm_q.weight, attention.norm_k.weight]
        if attention is block.attn1:
            result += [block.norm2.weight, block.norm2.bias]
    up, down = block.ffn.net[0].proj, block.ffn.net[2]
    return result + [up.weight, up.bias, down.weight, down.bias]


def rotary(model: WanTransformer3DModel, frames: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [1, 1, frames*side*side, HEAD/2] of the tokens of a clip."""
    cos, sin = model.rope(torch.zeros(1, 1, frames, 2 * side, 2 * side))
    return cos[..., 0::2].float().transpose(1, 2).contiguous(), sin[..., 1::2].float().transpose(1, 2).contiguous()


def forward(model, tokens, times, first, context, bias, angles, block=_block):
    """Velocity tokens [B, N, 64] (patch row, patch column, channel) of noisy tokens (channel, row, column).

    `times` [B, 1 or 2] in 0..1000: one for all tokens, or one for the `first` tokens and one for the rest.
    """
    b, n, _ = tokens.shape
    embedder = model.condition_embedder
    h = _linear(tokens.to(torch.bfloat16), model.patch_embedding.weight.flatten(1), model.patch_embedding.bias).float()
    e = embedder.time_embedder(embedder.timesteps_proj(times.flatten()))
    modulation = embedder.time_proj(F.silu(e)).view(b, -1, 6, WIDTH)
    e = e.view(b, -1, WIDTH)
    if times.shape[1] == 2:
        which = (torch.arange(n) >= first).long()
        modulation, e = modulation[:, which], e[:, which]
    text = embedder.text_embedder
    c = _linear(context.to(torch.bfloat16), text.linear_1.weight, text.linear_1.bias)
    c = _linear(F.gelu(c, approximate="tanh"), text.linear_2.weight, text.linear_2.bias)
    for module in model.blocks:
        h = block(h, c, modulation, *angles, bias, _weights(module))
    shift, scale = (model.scale_shift_table[:, None] + e[:, :, None]).unbind(2)
    h = (F.layer_norm(h, (WIDTH,), eps=1e-6) * (1 + scale) + shift).to(torch.bfloat16)
    return _linear(h, model.proj_out.weight, model.proj_out.bias).float()


def encode_text(encoder, ids, counts, padded: int = PADDED):
    """Context [B, L+1, 128] (the last row stands for all padding), attention bias and the mask of real tokens."""
    mask = torch.arange(ids.shape[1])[None] < counts[:, None]
    with loop.autocast("cpu"):
        hidden = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    hidden = hidden.float()
    context = torch.cat([hidden * mask[..., None], hidden.new_zeros(len(ids), 1, hidden.shape[2])], 1)
    pads = (padded - counts).clamp(min=1).float().log()[:, None]
    bias = torch.cat([torch.where(mask, 0.0, -1e4), pads], 1)
    return context, bias[:, None, None].to(torch.bfloat16), hidden, mask


def velocity_order(tokens: torch.Tensor) -> torch.Tensor:
    """Tokens (channel, row, column) in the order of the output projection (row, column, channel)."""
    b, n, c = tokens.shape
    return tokens.view(b, n, c // 4, 4).transpose(2, 3).reshape(b, n, c)


class Batches:
    """Draws noisy training batches from the latent pool."""

    def __init__(self, pool: dict, tokenizer: Tokenizer, seed: int, late: float = 1.0):
        self.pool, self.random, self.late = pool, random.Random(seed), late
        sampler = data.Sampler(7)
        self.filler = text_encoder.tokenize(tokenizer, [sampler.filler() for _ in range(1000)])
        self.empty = text_encoder.tokenize(tokenizer, [""])

    def draw(self, name: str, count: int) -> dict:
        """10 % of the captions are dropped, half for nothing, half for words that describe no shape."""
        latents, ids, counts, labels = self.pool[name]
        pick = torch.randint(0, len(latents), (count,))
        x, ids, counts, labels = latents[pick].float(), ids[pick].long(), counts[pick].clone(), labels[pick].long()
        chance = torch.rand(count)
        empty, filler = chance < 0.05, (chance >= 0.05) & (chance < 0.10)
        ids[empty], counts[empty] = self.empty[0], self.empty[1]
        other = torch.randint(0, len(self.filler[0]), (int(filler.sum()),))
        ids[filler], counts[filler] = self.filler[0][other], self.filler[1][other]
        labels[empty | filler] = text_encoder.IGNORED
        t = torch.sigmoid(0.3 + 1.1 * torch.randn(count))
        t = torch.where(torch.rand(count) < 0.1, torch.rand(count), t)
        sigma, weight = t.view(-1, 1, 1).expand(count, x.shape[1], 1).clone(), torch.ones(count, x.shape[1], 1)
        times, first = t[:, None], 0
        frames = KINDS[name][3]
        if frames > 1:  # the first frame is given but in half of the clips, and where the last one is, both lie in front
            first = x.shape[1] // frames
            weight[:, -first:] *= self.late
            first *= 2 if name.startswith("ends") else 1
            clean = torch.rand(count) < (0.5 if name.startswith("clip") else 1.0)
            sigma[clean, :first] = 0
            weight[clean, :first] = 0
            times = torch.stack([torch.where(clean, 0.0, t), t], 1)
        noise = torch.randn_like(x)
        return {"tokens": (1 - sigma) * x + sigma * noise, "target": velocity_order(noise - x), "weight": weight,
                "times": 1000 * times, "first": first, "ids": ids, "counts": counts, "labels": labels}


@torch.no_grad()
def check_equivalence(model, encoder, batches: Batches) -> float:
    """Largest relative difference to diffusers' own forward with all padding rows, for a still and a clip."""
    reference = build().eval()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    if not state["proj_out.weight"].any():
        state["proj_out.weight"].normal_(0, 0.05)
    ours = copy.deepcopy(model)
    ours.load_state_dict(state)
    reference.load_state_dict(to_diffusers(state))
    worst = 0.0
    for name in ("image64", "clip64"):
        frames = KINDS[name][3]
        b = batches.draw(name, 4)
        context, bias, _, mask = encode_text(encoder, b["ids"], b["counts"])
        out = forward(ours, b["tokens"], b["times"], b["first"], context, bias, rotary(model, frames, 4))
        full = torch.zeros(4, PADDED, context.shape[2])
        full[:, : context.shape[1] - 1] = context[:, :-1]
        per_token = b["times"][:, -1:].expand(4, out.shape[1]).clone()
        per_token[:, : b["first"]] = b["times"][:, :1]
        theirs = reference(unpatchify(b["tokens"], frames), per_token, full, return_dict=False)[0]
        ours_z = unpatchify(out.view(4, -1, 4, CHANNELS).transpose(2, 3).flatten(2), frames)
        worst = max(worst, ((ours_z - theirs).norm() / theirs.norm()).item())
    return worst


def choose(fraction: float, clips_from: float, r: random.Random, then: dict[str, float]) -> str:
    """The kind of the next batch; `then` has the shares after `clips_from`."""
    mix = EARLY if fraction < clips_from else then
    return r.choices(list(mix), list(mix.values()))[0]


def train(args, work: Path):
    """Trains transformer, text encoder and attribute heads together from the latent pool."""
    log, path = loop.Log(work / "transformer.log"), work / "transformer.pt"
    tokenizer = Tokenizer.from_file(str(work / "tokenizer" / "tokenizer.json"))
    model, encoder, heads = build(), text_encoder.build(), text_encoder.Heads()
    if args.freeze_text:
        if not args.init_from:
            raise ValueError("Cannot keep the text encoder: --freeze-text takes it from --init-from FOLDER")
        encoder = UMT5EncoderModel.from_pretrained(Path(args.init_from) / "text_encoder", torch_dtype=torch.float32)
        encoder.eval().requires_grad_(False)
    else:
        warmed = torch.load(work / "text.pt", weights_only=False)
        encoder.load_state_dict(warmed["model"])
        heads.load_state_dict(warmed["heads"])
    if args.init_from:
        source = WanTransformer3DModel.from_pretrained(Path(args.init_from) / "transformer", torch_dtype=torch.float32)
        model.load_state_dict(to_training(source.state_dict()))
    matrices = [p for n, p in model.named_parameters() if n.startswith("blocks") and p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    of_text = [*encoder.parameters(), *heads.parameters()]
    muon = Muon(matrices, args.muon_lr)
    adam = torch.optim.AdamW([{"params": others, "base": args.adam_lr}, {"params": of_text, "base": args.text_lr}],
                             betas=(0.9, 0.98), weight_decay=0.01)
    parameters = [*model.parameters(), *encoder.parameters()]
    everything = [*parameters, *heads.parameters()]
    average = loop.Average(parameters, 0.999)
    step, spent, seen = 0, 0.0, dict.fromkeys(BATCH, 0)
    if state := loop.load_checkpoint(path):
        for part, name in ((model, "model"), (encoder, "encoder"), (heads, "heads"), (adam, "adam")):
            part.load_state_dict(state[name])
        muon.momentum, average.values, average.steps = state["muon"], state["average"], state["step"]
        step, spent, seen = state["step"], state["spent"], state["seen"]
        torch.manual_seed(args.seed + step)
    batches = Batches(torch.load(work / "pool.pt"), tokenizer, args.seed + step, args.late)
    log(parameters=sum(p.numel() for p in model.parameters()),
        equivalence=check_equivalence(model, encoder, batches))
    torch._dynamo.config.cache_size_limit = 64
    block = torch.compile(_block, dynamic=False) if args.compile else _block
    angles = {k: rotary(model, frames, size // 16) for k, (size, _, _, frames) in KINDS.items()}
    budget = loop.Budget(args.minutes, args.pause_file, spent)
    saving, reporting, sums = loop.Every(60, spent), loop.Every(45, spent), {}

    def save():
        loop.save_checkpoint(path, {
            "model": model.state_dict(), "encoder": encoder.state_dict(), "heads": heads.state_dict(),
            "adam": adam.state_dict(), "muon": muon.momentum, "average": average.values, "step": step,
            "spent": budget.spent, "seen": seen})

    while budget.tick():
        name = choose(budget.fraction, args.clips_from, batches.random, CLIPS if args.mix == "clips" else LATE)
        b = batches.draw(name, BATCH[name])
        r = batches.random  # other programs may pad less than the pipeline's 512 rows
        padded = PADDED if r.random() < 0.75 else int(math.exp(r.uniform(math.log(28), math.log(PADDED))))
        context, bias, hidden, mask = encode_text(encoder, b["ids"], b["counts"], padded)
        v = forward(model, b["tokens"], b["times"], b["first"], context, bias, angles[name], block)
        flow = ((v - b["target"]).square() * b["weight"]).sum() / (b["weight"].sum() * v.shape[2])
        words = flow.new_zeros(())
        if not args.freeze_text:
            words, _ = text_encoder.loss_and_accuracy(heads, hidden, mask, b["labels"])
        for p in everything:
            p.grad = None
        (flow + 0.02 * words).backward()
        torch.nn.utils.clip_grad_norm_(everything, 1.0)
        factor = loop.warmup_cosine(step, budget.fraction, warmup=150, flat=0.35, floor=0.02)
        for group in adam.param_groups:
            group["lr"] = group["base"] * factor
        adam.step()
        muon.step(factor)
        average.update()
        step += 1
        seen[name] += BATCH[name]
        total = sums.setdefault(name, [0.0, 0])
        total[0] += flow.item()
        total[1] += 1
        if reporting(budget.spent):
            log(stage="transformer", minute=budget.spent / 60, step=step, lr=factor, words=words.item(),
                **{k: s / n for k, (s, n) in sums.items()}, seen=sum(seen.values()))
            sums = {}
        if saving(budget.spent):
            save()
    save()
    average.swap()
    exported = build()
    exported.load_state_dict(to_diffusers(model.state_dict()))
    exported.eval().save_pretrained(work / "transformer")
    encoder.eval().save_pretrained(work / "text_encoder_final")
    log(stage="transformer", done=not budget.stopped, step=step, **seen)
    budget.end_if_stopped()
