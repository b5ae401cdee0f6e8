"""Makes the goldens of LTX-2's transformer and connectors under tests/goldens/ltx2.

    python3 tools/reference/ltx2.py                 # make all
    python3 tools/reference/ltx2.py NAME ...        # make some
    python3 tools/reference/ltx2.py --check [NAME]  # read the stored ones back and run them again
"""

import torch
from diffusers import LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2 import LTX2TextConnectors

import common
from common import Call, generator, make_goldens, normal
from seeded import seed_weights

FOLDER = common.GOLDENS.parent / "ltx2"

# Widths that fill no vector of four but in the heads; more pairs than three axes share evenly.
TINY = dict(
    in_channels=6, out_channels=6, num_attention_heads=2, attention_head_dim=20, cross_attention_dim=40,
    audio_in_channels=6, audio_out_channels=6, audio_num_attention_heads=2, audio_attention_head_dim=8,
    audio_cross_attention_dim=16, num_layers=2, caption_channels=22, cross_attn_timestep_scale_multiplier=500,
    vae_scale_factors=(8, 4, 4), pos_embed_max_pos=2, base_height=64, base_width=48, audio_pos_embed_max_pos=3,
)
# As LTX-2.3 has it.
TINY23 = {**TINY, "rope_type": "split", "gated_attn": True, "cross_attn_mod": True, "audio_gated_attn": True,
          "audio_cross_attn_mod": True, "use_prompt_embeddings": False, "perturbed_attn": True}
# Text that is the same at all timesteps, without biases in the feed-forward of the video, as later models have it.
TINY25 = {**TINY23, "use_prompt_adaln_single": False, "ff_bias": False, "num_layers": 1}
# Heads of 128 and 64, every width a multiple of 256.
WIDE = {**TINY23, "in_channels": 128, "out_channels": 128, "audio_in_channels": 128, "audio_out_channels": 128,
        "num_attention_heads": 4, "attention_head_dim": 128, "cross_attention_dim": 512, "audio_num_attention_heads": 4,
        "audio_attention_head_dim": 64, "audio_cross_attention_dim": 256, "num_layers": 1}
# All heads of the published models.
FULL = {**WIDE, "num_attention_heads": 32, "cross_attention_dim": 4096, "audio_num_attention_heads": 32,
        "audio_cross_attention_dim": 2048}

CONNECTORS = dict(
    caption_channels=30, text_proj_in_factor=5, video_connector_num_attention_heads=1, video_connector_attention_head_dim=30,
    video_connector_num_layers=1, video_connector_num_learnable_registers=16, audio_connector_num_attention_heads=1,
    audio_connector_attention_head_dim=30, audio_connector_num_layers=1, audio_connector_num_learnable_registers=16,
)


def transformer(folder, seed, **config):
    model = LTX2VideoTransformer3DModel(**config)
    model.save_config(folder)
    tables = {name: (0.0, 0.3) for name, _ in model.named_parameters() if "scale_shift_table" in name}
    return seed_weights(folder, model, seed, overrides=tables)


def forward_call(model, name, seed, grid, sound, text_tokens, time, fps=24.0, clean=0, stg=None, isolated=False):
    """`clean` tokens of the video are at timestep 0."""
    rng = generator(seed)
    config = model.config
    frames, rows, columns = grid
    tokens = frames * rows * columns
    video, audio = normal(rng, 1, tokens, config.in_channels), normal(rng, 1, sound, config.audio_in_channels)
    width, audio_width = (config.caption_channels,) * 2 if config.use_prompt_embeddings else (
        config.cross_attention_dim, config.audio_cross_attention_dim)
    text, audio_text = normal(rng, 1, text_tokens, width), normal(rng, 1, text_tokens, audio_width)
    timestep = torch.tensor([time])
    own = timestep if clean == 0 else torch.where(torch.arange(tokens) < clean, 0.0, time)[None]
    output, audio_output = model(
        hidden_states=video, audio_hidden_states=audio, encoder_hidden_states=text, audio_encoder_hidden_states=audio_text,
        timestep=own, audio_timestep=timestep, sigma=timestep, encoder_attention_mask=torch.ones(1, text_tokens),
        audio_encoder_attention_mask=torch.ones(1, text_tokens), num_frames=frames, height=rows, width=columns, fps=fps,
        audio_num_frames=sound, isolate_modalities=isolated, spatio_temporal_guidance_blocks=stg, use_cross_timestep=True,
        return_dict=False,
    )
    args = {"time": time, "grid": list(grid), "fps": fps, "clean": clean, "perturbed": stg or [], "isolated": isolated}
    return Call(name, "the velocities of video and sound", args,
                {"video": video, "audio": audio, "text": text, "audio_text": audio_text},
                {"video_output": output, "audio_output": audio_output})


def tiny_calls(folder, seed):
    model = transformer(folder, seed, **TINY)
    return [forward_call(model, "text", seed + 1, (3, 2, 3), 9, 7, 812.5)]


def tiny23_calls(folder, seed):
    model = transformer(folder, seed, **TINY23)
    return [
        forward_call(model, "text", seed + 1, (2, 3, 2), 5, 4, 937.5, fps=12.5),
        forward_call(model, "image", seed + 2, (3, 2, 2), 7, 5, 400.0, clean=4),
        forward_call(model, "perturbed", seed + 3, (2, 1, 3), 4, 3, 600.0, stg=[1]),
        forward_call(model, "isolated", seed + 4, (1, 2, 2), 3, 3, 250.0, isolated=True),
    ]


def one_call(config, **options):
    return lambda folder, seed: [forward_call(transformer(folder, seed, **config), "text", seed + 1, **options)]


def connectors(folder, seed, **config):
    model = LTX2TextConnectors(**config)
    model.save_config(folder)
    return seed_weights(folder, model, seed)


def connectors_call(model, name, seed, lengths, tokens):
    """States of texts that are padded before their first token; what is under the pads is not stored."""
    rng = generator(seed)
    config = model.config
    states = normal(rng, len(lengths), tokens, config.caption_channels, config.text_proj_in_factor)
    states = states * (1 + torch.arange(config.text_proj_in_factor)) + 0.5
    mask = torch.zeros(len(lengths), tokens, dtype=torch.int64)
    inputs = {}
    for i, length in enumerate(lengths):
        mask[i, tokens - length:] = 1
        # Layer by layer, as the text encoder gives them.
        inputs[f"states{i}"] = states[i, tokens - length:].permute(2, 0, 1).contiguous()
    video, audio, seen = model(states.flatten(2, 3), mask)
    assert seen.all()
    return Call(name, "prompts as the transformer takes them", {"lengths": list(lengths), "tokens": tokens}, inputs,
                {"video": video, "audio": audio})


def connectors_calls(config):
    return lambda folder, seed: [connectors_call(connectors(folder, seed, **config), "two", seed + 1, [3, 11], 32)]


PER_MODALITY = {**CONNECTORS, "per_modality_projections": True, "video_hidden_dim": 40, "audio_hidden_dim": 16,
                "video_connector_num_attention_heads": 2, "video_connector_attention_head_dim": 20,
                "audio_connector_num_attention_heads": 2, "audio_connector_attention_head_dim": 8, "rope_type": "split",
                "video_gated_attn": True, "audio_gated_attn": True, "video_connector_num_layers": 2, "proj_bias": True}
JOINT = {**CONNECTORS, "video_connector_num_attention_heads": 3, "video_connector_attention_head_dim": 12,
         "audio_connector_num_attention_heads": 3, "audio_connector_attention_head_dim": 12, "caption_channels": 36}


def of(config):
    return lambda folder, seed: transformer(folder, seed, **config)


GOLDENS = {
    "tiny": ("LTX-2, tiny", 441, of(TINY), tiny_calls),
    "tiny23": ("LTX-2.3, tiny", 443, of(TINY23), tiny23_calls),
    "tiny25": ("LTX-2 with a prompt that no timestep changes, tiny", 445, of(TINY25),
               one_call(TINY25, grid=(2, 2, 2), sound=4, text_tokens=3, time=700.0)),
    "wide": ("LTX-2.3, heads of 128 and 64", 447, of(WIDE), one_call(WIDE, grid=(2, 3, 4), sound=10, text_tokens=16, time=875.0)),
    "full": ("LTX-2.3, one layer at its full width", 449, of(FULL),
             one_call(FULL, grid=(2, 2, 3), sound=6, text_tokens=8, time=875.0)),
    "connectors": ("the connectors of LTX-2, tiny", 451, lambda f, s: connectors(f, s, **JOINT), connectors_calls(JOINT)),
    "connectors23": ("the connectors of LTX-2.3, tiny", 453, lambda f, s: connectors(f, s, **PER_MODALITY),
                     connectors_calls(PER_MODALITY)),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
