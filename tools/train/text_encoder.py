"""The text encoder: a two-layer `UMT5EncoderModel`, warmed up by naming what a caption says.

Small heads read each attribute (first shape, second object's colour, relation, edit, ...) off the encoder's
output by attention. They also stay on as a helper loss while the transformer trains, so that the encoder keeps
apart what the images alone teach slowly: which colour belongs to which object.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import UMT5Config, UMT5EncoderModel

import data
import loop
import tokenizer as tokens

WIDTH = 128
LENGTH = 40  # longest caption in tokens, with end mark; longer ones are cut in training
ATTRIBUTES = {
    "shape1": data.THINGS, "color1": data.COLORS, "shape2": [*data.THINGS, None], "color2": [*data.COLORS, None],
    "background": [*data.COLORS, None], "position": [*data.POSITIONS, None], "relation": [*data.RELATIONS, None],
    "move": [*data.MOVES, None], "size": ["small", "large", None], "count": [2, 3, 4, None],
    "edit": [*data.EDITS, None], "style": ["flat", "3d", None],
    # Of a pair, by place and not by order of mention: the left or upper object, then the right or lower one.
    "near shape": [*data.THINGS, None], "near color": [*data.COLORS, None],
    "far shape": [*data.THINGS, None], "far color": [*data.COLORS, None],
}
IGNORED = -100


def build(vocabulary: int = tokens.SIZE) -> UMT5EncoderModel:
    """A fresh encoder: width 128, two layers, four heads of 32."""
    config = UMT5Config(
        vocab_size=vocabulary, d_model=WIDTH, d_kv=32, d_ff=320, num_layers=2, num_heads=4, num_decoder_layers=1,
        relative_attention_num_buckets=32, relative_attention_max_distance=128, dropout_rate=0.0,
        feed_forward_proj="gated-gelu", tie_word_embeddings=True, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, use_cache=False)
    model = UMT5EncoderModel(config)
    with torch.no_grad():
        model.shared.weight.mul_(0.5)
    return model


@torch.no_grad()
def warm_start(model: UMT5EncoderModel, folder: Path, own_pieces: list[str]):
    """Copies a saved encoder; embedding rows follow their piece of text to its new id."""
    source = UMT5EncoderModel.from_pretrained(folder / "text_encoder", dtype=torch.float32).state_dict()
    row = {p: i for i, p in enumerate(tokens.pieces(folder / "tokenizer"))}
    own = model.state_dict()
    for name, value in source.items():
        if own[name].shape == value.shape and "shared" not in name and "embed_tokens" not in name:
            own[name].copy_(value)
    for i, piece in enumerate(own_pieces):
        if piece in row:
            model.shared.weight[i] = source["shared.weight"][row[piece]]


class Heads(torch.nn.Module):
    """One attention query and one linear classifier per attribute."""

    def __init__(self):
        super().__init__()
        self.queries = torch.nn.Parameter(torch.randn(len(ATTRIBUTES), WIDTH) * 0.1)
        self.key = torch.nn.Linear(WIDTH, WIDTH)
        self.value = torch.nn.Linear(WIDTH, 64)
        self.outputs = torch.nn.ModuleList([torch.nn.Linear(64, len(v)) for v in ATTRIBUTES.values()])

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
        scores = torch.einsum("ad,bld->bal", self.queries, self.key(hidden)) * WIDTH**-0.5
        weights = scores.masked_fill(~mask[:, None], -1e4).softmax(-1)
        pooled = F.gelu(weights @ self.value(hidden))
        return [out(pooled[:, i]) for i, out in enumerate(self.outputs)]


def labels(scene: data.Scene) -> list[int]:
    """The index of each attribute's value; what the caption leaves open is ignored or None."""
    edit = scene.edited
    first = scene.objects[scene.edit_target or 0]
    second = None
    if scene.kind == "pair":
        second = scene.objects[1]
    background = scene.background if scene.background_named else None
    if edit is not None:  # for an instruction: the object it names, then what becomes of it
        changed = edit.objects[scene.edit_target]
        second = (changed[0] if scene.edit == "reshape" else None, changed[1] if scene.edit == "recolor" else None)
        background = edit.background if scene.edit == "background" else None
    near = far = (None, None)
    if scene.kind == "pair":
        near, far = sorted(scene.objects, key=lambda o: o[2] + o[3])
    plain = [o and (o[0] and o[0].removeprefix("3d "), o[1]) for o in (first, second, near, far)]
    first, second, near, far = plain
    style = next((s for s in ("3d", "flat") if s in scene.caption), None)
    values = [first[0], first[1] or data.COLORS[0], second and second[0], second and second[1], background, scene.position,
              scene.relation if edit is None else None, scene.move, scene.size, scene.count, scene.edit, style,
              near[0], near[1], far[0], far[1]]
    result = [names.index(v) for names, v in zip(ATTRIBUTES.values(), values)]
    words = scene.caption
    if first[1] is None:
        result[1] = IGNORED
        return result
    colors_said = {first[1], *data.COLOR_WORDS.get(first[1], [])}
    if edit is not None and scene.edit == "background":
        result[0] = result[1] = IGNORED
    elif not any(f" {c} " in f" {words} " for c in colors_said) or edit is not None:
        result[1] = IGNORED
    return result


def loss_and_accuracy(heads: Heads, hidden, mask, target) -> tuple[torch.Tensor, list[float]]:
    """Sum of cross-entropies over the attributes, and the share that is right of each."""
    loss, accuracy = hidden.new_zeros(()), []
    for i, scores in enumerate(heads(hidden, mask)):
        loss = loss + torch.nan_to_num(F.cross_entropy(scores, target[:, i], ignore_index=IGNORED))
        known = target[:, i] != IGNORED
        accuracy.append((scores.argmax(1) == target[:, i])[known].float().mean().item())
    return loss, accuracy


def tokenize(tokenizer: Tokenizer, captions: list[str], length: int = LENGTH) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids [N, length] padded with 0 and the number of real tokens [N]."""
    ids = torch.zeros(len(captions), length, dtype=torch.long)
    counts = torch.zeros(len(captions), dtype=torch.long)
    for i, encoding in enumerate(tokenizer.encode_batch(captions)):
        row = encoding.ids if len(encoding.ids) <= length else [*encoding.ids[: length - 1], 1]
        ids[i, : len(row)] = torch.tensor(row)
        counts[i] = len(row)
    return ids, counts


def draw(sampler: data.Sampler, count: int) -> list[data.Scene]:
    """Scenes in the proportions of the text stage: half stills, a quarter clips, a quarter edits."""
    draws = [sampler.image, sampler.clip, sampler.image, sampler.edit]
    return [draws[i % 4]() for i in range(count)]


def train(args, work: Path):
    """Warms the encoder up on captions alone."""
    log, path = loop.Log(work / "text.log"), work / "text.pt"
    tokenizer = tokens.build()
    tokens.save(tokenizer, work / "tokenizer")
    model, heads = build(), Heads()
    if args.init_from:
        warm_start(model, Path(args.init_from), tokens.pieces(work / "tokenizer"))
    parameters = [*model.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01)
    step, spent = 0, 0.0
    if state := loop.load_checkpoint(path):
        model.load_state_dict(state["model"])
        heads.load_state_dict(state["heads"])
        optimizer.load_state_dict(state["optimizer"])
        step, spent = state["step"], state["spent"]
    budget = loop.Budget(args.minutes, args.pause_file, spent)
    saving, reporting = loop.Every(60, spent), loop.Every(20, spent)
    sampler = data.Sampler(2000 + args.seed + step)

    def save():
        loop.save_checkpoint(path, {"model": model.state_dict(), "heads": heads.state_dict(), "step": step,
                                    "optimizer": optimizer.state_dict(), "spent": budget.spent})

    while budget.tick():
        scenes = draw(sampler, 128)
        ids, counts = tokenize(tokenizer, [s.caption for s in scenes])
        length = int(counts.max())
        ids, mask = ids[:, :length], torch.arange(length)[None] < counts[:, None]
        with loop.autocast("cpu"):
            hidden = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        loss, _ = loss_and_accuracy(heads, hidden.float(), mask, torch.tensor([labels(s) for s in scenes]))
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * loop.warmup_cosine(step, budget.fraction)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        if reporting(budget.spent):
            log(stage="text", minute=budget.spent / 60, step=step, loss=loss.item(),
                **accuracy(model, heads, tokenizer))
        if saving(budget.spent):
            save()
    save()
    budget.end_if_stopped()
    log(stage="text", done=True, step=step, **accuracy(model, heads, tokenizer))


@torch.no_grad()
def accuracy(model, heads, tokenizer) -> dict[str, float]:
    """Share of attributes read right from held-out captions."""
    scenes = draw(data.Sampler(77, held_out=True), 512)
    ids, counts = tokenize(tokenizer, [s.caption for s in scenes])
    mask = torch.arange(ids.shape[1])[None] < counts[:, None]
    hidden = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    _, right = loss_and_accuracy(heads, hidden, mask, torch.tensor([labels(s) for s in scenes]))
    return dict(zip(ATTRIBUTES, (round(r, 3) for r in right)))
