"""Makes the goldens of the Qwen3 text encoder under tests/goldens/qwen3.

    python3 tools/reference/qwen3.py                 # make all
    python3 tools/reference/qwen3.py NAME ...        # make some
    python3 tools/reference/qwen3.py --check [NAME]  # read the stored ones back and run them again
"""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3Model

import common
from common import Call, generator, make_goldens, randomise
from seeded import keep_seed, seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "qwen3"

TINY = dict(
    vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)
WIDE = dict(
    vocab_size=61, hidden_size=512, intermediate_size=768, num_hidden_layers=3, num_attention_heads=8,
    num_key_value_heads=2, head_dim=128, max_position_embeddings=512,
    rope_parameters={"rope_type": "default", "rope_theta": 1e6},
)


def states_call(model, name, lengths, tokens, layers, seed, rows=None):
    """States after `layers` of padded rows; `rows` keeps only the first and last few tokens."""
    rng = generator(seed)
    ids = torch.randint(0, model.config.vocab_size, (len(lengths), tokens), generator=rng)
    mask = torch.zeros_like(ids)
    for i, length in enumerate(lengths):
        ids[i, length:] = 1
        mask[i, :length] = 1
    states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    assert len(states) == model.config.num_hidden_layers + 1
    keep = torch.arange(tokens) if rows is None else torch.tensor([*range(rows), *range(tokens - rows, tokens)])
    outputs = {f"states{layer}": states[layer][:, keep] for layer in layers}
    args = {"lengths": list(lengths), "layers": list(layers), "kept": keep.tolist()}
    description = "hidden states, numbered as transformers numbers them; pads have id 1"
    return Call(name, description, args, {"input_ids": ids.int()}, outputs)


def build_tiny(folder, seed):
    # The whole language model, whose names begin with "model.", as the FLUX.2 and Z-Image folders have it.
    model = randomise(Qwen3ForCausalLM(Qwen3Config(**TINY, tie_word_embeddings=True)), seed).half()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    keep_seed(folder, model, seed)


def tiny_calls(folder, seed):
    model = Qwen3ForCausalLM.from_pretrained(with_weights(folder), dtype=torch.float32, attn_implementation="eager").eval()
    return [
        states_call(model, "one", [9], 9, [0, 1, 3, 4], seed + 1),
        states_call(model, "padded", [5, 21, 1], 21, [2, 3], seed + 2),
    ]


def wide_model(folder, seed):
    torch.manual_seed(0)
    model = Qwen3Model(Qwen3Config(**WIDE, attn_implementation="eager"))
    model.config.save_pretrained(folder)
    return seed_weights(folder, model, seed)


def build_wide(folder, seed):
    wide_model(folder, seed)


def wide_calls(folder, seed):
    model = wide_model(folder, seed)
    return [states_call(model, "padded", [70, 33], 72, [1, 2], seed + 1, rows=2)]


GOLDENS = {
    "tiny": ("Qwen3 text encoder, tiny", 31, build_tiny, tiny_calls),
    "wide": ("Qwen3 text encoder, wide", 37, build_wide, wide_calls),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
