"""Makes the goldens of CLIP's text towers under tests/goldens/clip_text.

    python3 tools/reference/clip_text.py                 # make all
    python3 tools/reference/clip_text.py NAME ...        # make some
    python3 tools/reference/clip_text.py --check [NAME]  # read the stored ones back and run them again

`open_clip` stores the weights of a tower as OpenCLIP names them, in open_clip.safetensors.
"""

import torch
from diffusers.loaders.single_file_utils import convert_open_clip_checkpoint
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

import common
from common import Call, generator, make_goldens, randomise
from seeded import seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "clip_text"

WORDS, PLACES = 99, 13
BOS, EOS = WORDS - 2, WORDS - 1
COMMON = dict(vocab_size=WORDS, max_position_embeddings=PLACES, bos_token_id=BOS, num_hidden_layers=3)
# The end token of old configurations, for which the highest id is taken.
LARGE = dict(COMMON, hidden_size=128, num_attention_heads=2, intermediate_size=160, hidden_act="quick_gelu",
             eos_token_id=2, pad_token_id=1)
GIANT = dict(COMMON, hidden_size=192, num_attention_heads=3, intermediate_size=128, hidden_act="gelu",
             eos_token_id=EOS, pad_token_id=0, projection_dim=64)
NARROW = dict(COMMON, num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=40,
              hidden_act="gelu", eos_token_id=EOS, pad_token_id=0, projection_dim=32)  # fmt: skip


def texts(seed, pad):
    """A text, and one as long as there are places; ids below those of the special tokens."""
    rng = generator(seed)
    words = torch.randint(3, BOS, (2, PLACES), generator=rng)
    words[:, 0] = BOS
    words[0, 5] = EOS
    words[0, 6:] = pad
    words[1, -1] = EOS
    return words


def states_call(model, name, ids, description):
    seen = model(input_ids=ids, output_hidden_states=True)
    tower = getattr(model, "text_model", model)
    projected = isinstance(model, CLIPTextModelWithProjection)
    outputs = {
        "last": seen.last_hidden_state,
        "raw1": seen.hidden_states[-2],
        "normed1": tower.final_layer_norm(seen.hidden_states[-2]),
        "raw2": seen.hidden_states[-3],
        "pooled": seen.text_embeds if projected else seen.pooler_output,
    }
    return Call(name, description, {"isProjected": projected}, {"input_ids": ids.int()}, outputs)


def build(kind, options):
    def make(folder, seed):
        torch.manual_seed(0)
        model = kind(CLIPTextConfig(**options))
        model.config.save_pretrained(folder)
        seed_weights(folder, model, seed)

    return make


def calls(kind, pad):
    def run(folder, seed):
        model = kind.from_pretrained(with_weights(folder), dtype=torch.float32, attn_implementation="eager").eval()
        return [states_call(model, "texts", texts(seed + 1, pad), f"two texts, the first padded with {pad}")]

    return run


def open_clip_names(tensors, layers):
    """What OpenCLIP's own code would have saved."""
    part = lambda i, name: tensors[f"text_model.encoder.layers.{i}.{name}"]
    theirs = {
        "token_embedding.weight": tensors["text_model.embeddings.token_embedding.weight"],
        "positional_embedding": tensors["text_model.embeddings.position_embedding.weight"],
        "text_projection": tensors["text_projection.weight"].T,
        "logit_scale": torch.tensor(4.6),
    } | {f"ln_final.{p}": tensors[f"text_model.final_layer_norm.{p}"] for p in ("weight", "bias")}
    for i in range(layers):
        block = f"transformer.resblocks.{i}"
        for p in ("weight", "bias"):
            theirs[f"{block}.attn.in_proj_{p}"] = torch.cat([part(i, f"self_attn.{n}_proj.{p}") for n in "qkv"])
            for own, name in {"attn.out_proj": "self_attn.out_proj", "ln_1": "layer_norm1", "ln_2": "layer_norm2",
                              "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}.items():  # fmt: skip
                theirs[f"{block}.{own}.{p}"] = part(i, f"{name}.{p}")
    return {f"model.{name}": tensor.half().contiguous() for name, tensor in theirs.items()}


def build_open_clip(folder, seed):
    model = randomise(CLIPTextModelWithProjection(CLIPTextConfig(**NARROW)), seed)
    model.config.save_pretrained(folder)
    save_file(open_clip_names(model.state_dict(), NARROW["num_hidden_layers"]), folder / "open_clip.safetensors")


def open_clip_calls(folder, seed):
    model = CLIPTextModelWithProjection(CLIPTextConfig(**NARROW, attn_implementation="eager")).eval()
    stored = {name: tensor.float() for name, tensor in load_file(folder / "open_clip.safetensors").items()}
    model.load_state_dict(convert_open_clip_checkpoint(model, stored, "model."))
    return [states_call(model, "texts", texts(seed + 1, 0), "two texts, weights converted by diffusers")]


GOLDENS = {
    "large": ("CLIP-L, heads of 64", 1200, build(CLIPTextModel, LARGE), calls(CLIPTextModel, EOS)),
    "giant": (
        "OpenCLIP bigG, heads of 64", 1210, build(CLIPTextModelWithProjection, GIANT), calls(CLIPTextModelWithProjection, 0)
    ),
    "open_clip": ("OpenCLIP's own names", 1220, build_open_clip, open_clip_calls),
}  # fmt: skip


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
