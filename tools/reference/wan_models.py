"""Goldens of Wan's components: UMT5 encoder, transformer, autoencoder.

Every golden has a `build` (writes the model folder) and a `calls` (reads the folder back and runs
it). Inputs come from seeds, so `calls` gives the same inputs each time.
"""

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel, WanVACETransformer3DModel
from diffusers.models.autoencoders.autoencoder_kl_wan import WanAttentionBlock, unpatchify
from safetensors.torch import load_file, save_file
from transformers import CLIPVisionConfig, CLIPVisionModel, UMT5Config, UMT5EncoderModel

from common import Call, Recorder, generator, multiply, normal, randomise, rescale
from seeded import keep_seed, with_weights

# Text encoder


def build_umt5(folder, seed, dtype=torch.float32, shard="5GB", **config):
    model = UMT5EncoderModel(UMT5Config(feed_forward_proj="gated-gelu", **config))
    randomise(model, seed).to(dtype).save_pretrained(folder, max_shard_size=shard)
    keep_seed(folder, model, seed)


def umt5_calls(folder, seed, cases, debug=False):
    """`cases`: name -> (prompt lengths, padded length). Outputs keep every row of the padded length
    unless it is 512 with few real rows; then only the real rows are stored."""
    model = UMT5EncoderModel.from_pretrained(with_weights(folder), dtype=torch.float32).eval()
    rng = generator(seed + 1)
    calls = []
    for name, (lengths, padded) in cases.items():
        ids = torch.zeros(len(lengths), padded, dtype=torch.long)
        mask = torch.zeros(len(lengths), padded, dtype=torch.long)
        for row, length in enumerate(lengths):
            draw = torch.randint(3, model.config.vocab_size, (length - 1,), generator=rng)
            ids[row, :length] = torch.cat([draw, torch.ones(1, dtype=torch.long)])
            mask[row, :length] = 1
        with Recorder() as recorder:
            if debug and padded < 512:
                for i, block in enumerate(model.encoder.block):
                    recorder.watch(f"block{i}", block, lambda _, out: out)
                first = model.encoder.block[0].layer[0]
                recorder.watch("block0.attention", first.SelfAttention, lambda _, out: out[0])
            state = model(ids, mask).last_hidden_state
        rows = padded if max(lengths) * 4 > padded else max(lengths)
        calls.append(
            Call(
                name,
                f"{len(lengths)} prompts of {lengths} tokens padded with id 0 to {padded}; "
                f"rows 0..{rows - 1} of the result are stored",
                {"lengths": lengths, "padded": padded, "rows": rows},
                {"input_ids": ids.int(), "attention_mask": mask.int()},
                {"last_hidden_state": state[:, :rows]},
                recorder.first(),
            )
        )
    return calls


# Transformer


def build_transformer(folder, seed, dtype=torch.float32, mixed=False, **config):
    """`mixed` keeps norms, tables and the time embedder in float32 beside `dtype`, as files saved
    from a half-precision model with diffusers' float32 exceptions have them."""
    model = randomise(WanTransformer3DModel(**config), seed)
    with torch.no_grad():
        rng = generator(seed + 2)
        latents = normal(rng, 1, config["in_channels"], 2, 6, 10)
        context = normal(rng, 1, 8, config["text_dim"])
        out = model(latents, torch.tensor([500.0]), context).sample
        rescale(model.proj_out, 1.0 / out.std().item())
    for name, parameter in model.named_parameters():
        exceptions = ("time_embedder", "scale_shift_table", "norm1", "norm2", "norm3")
        if not (mixed and any(part in name for part in exceptions)):
            parameter.data = parameter.data.to(dtype)
    model.save_pretrained(folder)
    keep_seed(folder, model, seed)


def transformer_calls(folder, seed, distinct=False):
    model = WanTransformer3DModel.from_pretrained(with_weights(folder), dtype=torch.float32).eval()
    config, rng = model.config, generator(seed + 1)

    def case(name, description, shape, timestep, real, length, watch=lambda *_: None):
        latents = normal(rng, *shape)
        rows = normal(rng, shape[0], max(real), config.text_dim)
        for b, count in enumerate(real):
            rows[b, count:] = 0
        context = torch.zeros(shape[0], length, config.text_dim)
        context[:, : max(real)] = rows
        with Recorder() as recorder:
            watch(recorder, model)
            sample = model(latents, timestep, context).sample
        inside = recorder.first()
        results = {key: inside.pop(key) for key in ("rope_cos", "rope_sin", "time_features") if key in inside}
        integral = not timestep.is_floating_point()
        return Call(
            name,
            description,
            {"context_length": length, "context_real_rows": real, "integer_timestep": integral},
            {
                "hidden_states": latents,
                "timestep": timestep.int() if integral else timestep,
                "context_rows": rows,
            },
            {"sample": sample} | results,
            inside,
        )

    note = "context = context_rows, then zero rows up to context_length"
    tokens = 3 * 3 * 5
    first_clean = torch.full((1, tokens), 641.75)
    first_clean[:, : tokens // 3] = 0
    calls = [
        case("image", f"one frame, 15 tokens, scalar timestep; {note}", (1, config.in_channels, 1, 6, 10),
             torch.tensor([999]), [7], 512),
        case("video_batch", f"batch of 2, 3 frames, 45 tokens, a timestep per sample; {note}",
             (2, config.in_channels, 3, 6, 10), torch.tensor([812.5, 37.25]), [20, 13], 20, watch_inside),
        case("first_frame", f"per-token timesteps, first latent frame at 0; {note}",
             (1, config.in_channels, 3, 6, 10), first_clean, [11], 512, watch_ends),
        case("tall", f"5 frames of 8x2 latents, scalar timestep; {note}",
             (1, config.in_channels, 5, 8, 2), torch.tensor([250.125]), [24], 24),
    ]  # fmt: skip
    if distinct:
        timestep = torch.rand(2, 15, generator=rng) * 1000
        calls.append(
            case("distinct_timesteps", f"every token its own timestep, batch of 2; {note}",
                 (2, config.in_channels, 1, 6, 10), timestep, [9, 4], 16)
        )  # fmt: skip
    return calls


def watch_ends(recorder, model):
    recorder.watch("temb", model.condition_embedder, lambda _, out: out[0])
    # Every zero row of the context embeds to the same row, so 21 rows show all there is.
    recorder.watch("text_embeds", model.condition_embedder, lambda _, out: out[2][:, :21])
    recorder.watch("block0.output", model.blocks[0])
    recorder.watch("tokens", model.proj_out)


def watch_inside(recorder, model):
    watch_ends(recorder, model)
    block, embedder = model.blocks[0], model.condition_embedder
    recorder.watch("rope_cos", model.rope, lambda _, out: out[0][0, :, 0])
    recorder.watch("rope_sin", model.rope, lambda _, out: out[1][0, :, 0])
    recorder.watch("time_features", embedder.timesteps_proj)
    recorder.watch("timestep_proj", embedder, lambda _, out: out[1])
    recorder.watch("block0.input", block, lambda args, _: args[0])
    recorder.watch("block0.norm1", block.norm1)
    recorder.watch("block0.attn1", block.attn1)
    recorder.watch("block0.attn2", block.attn2)
    recorder.watch("block0.ffn", block.ffn)


# Transformers that see more than a prompt


def build_conditioned(folder, seed, vace=False, **config):
    model = randomise((WanVACETransformer3DModel if vace else WanTransformer3DModel)(**config), seed)
    rescale(model.proj_out, 0.1)
    model.save_pretrained(folder)
    keep_seed(folder, model, seed)


def conditioned_calls(folder, seed, vace=False, images=1):
    kind = WanVACETransformer3DModel if vace else WanTransformer3DModel
    model = kind.from_pretrained(with_weights(folder), dtype=torch.float32).eval()
    config, rng = model.config, generator(seed + 1)
    latents = normal(rng, 1, config.in_channels, 3, 6, 10)
    rows = normal(rng, 1, 7, config.text_dim)
    context = torch.zeros(1, 512, config.text_dim)
    context[:, :7] = rows
    timestep = torch.tensor([641.75])
    inputs = {"hidden_states": latents, "timestep": timestep, "context_rows": rows}
    if config.image_dim:
        image = normal(rng, images, 5, config.image_dim)
        inputs["image_states"] = image
        sample = model(latents, timestep, context, image).sample
    else:
        control = normal(rng, 1, config.vace_in_channels, 3, 6, 10)
        scale = torch.tensor([0.6, 1.3])
        inputs |= {"control": control, "control_scale": scale}
        sample = model(
            latents, timestep, context, control_hidden_states=control, control_hidden_states_scale=scale
        ).sample
    args = {"context_length": 512, "context_real_rows": [7], "integer_timestep": False}
    return [Call("video", "3 frames, 45 tokens", args, inputs, {"sample": sample})]


# Image encoder


def build_vision(folder, seed, **config):
    model = randomise(CLIPVisionModel(CLIPVisionConfig(**config)), seed)
    model.save_pretrained(folder)
    keep_seed(folder, model, seed)


def vision_calls(folder, seed):
    model = CLIPVisionModel.from_pretrained(with_weights(folder), dtype=torch.float32).eval()
    side = model.config.image_size
    pixels = normal(generator(seed + 1), 2, 3, side, side)
    states = model(pixels, output_hidden_states=True).hidden_states[-2]
    return [Call("images", "two images, normalised", {}, {"pixels": pixels}, {"states": states})]


# Autoencoder


def latent_statistics(z_dim, seed):
    rng = generator(seed)
    mean = [round(v, 4) for v in normal(rng, z_dim, std=0.5).tolist()]
    std = [round(v, 4) for v in (0.4 + 1.6 * torch.rand(z_dim, generator=rng)).tolist()]
    return {"latents_mean": mean, "latents_std": std}


def smooth_video(rng, batch, frames, height, width):
    """Soft moving blobs with a little grain, in [-1, 1]."""
    coarse = normal(rng, batch, 3, max(2, frames // 2), 4, 4)
    video = torch.nn.functional.interpolate(
        coarse, size=(frames, height, width), mode="trilinear", align_corners=True
    )
    return (0.5 * video + 0.1 * normal(rng, *video.shape)).clamp(-1, 1)


def make_vae(seed, **config):
    """A random autoencoder whose latents have unit size and whose pixels rarely reach +-1."""
    vae = randomise(AutoencoderKLWan(**config, **latent_statistics(config["z_dim"], seed)), seed, 1.4)
    ratio = config["scale_factor_spatial"]
    rng = generator(seed + 2)
    with torch.no_grad():
        for part in (vae.encoder, vae.decoder):
            multiply(part.mid_block.attentions[0].to_qkv.weight, 1.5)
        vae.quant_conv.weight.copy_(vae.quant_conv.weight / 1.4)
        vae.quant_conv.weight.rule["over"] = 1.4
        mean = vae.encode(smooth_video(rng, 1, 5, 4 * ratio, 4 * ratio)).latent_dist.mean
        rescale(vae.encoder.conv_out, 1.0 / mean.std().item())
        z = normal(rng, 1, config["z_dim"], 2, 4, 4)
        with Recorder() as recorder:
            recorder.watch("pixels", vae.decoder)
            vae.decode(z)
        rescale(vae.decoder.conv_out, 0.4 / recorder.joined(2)["pixels"].std().item())
    return vae


def build_vae(folder, seed, dtype=torch.float32, **config):
    vae = make_vae(seed, **config).to(dtype)
    vae.save_pretrained(folder)
    keep_seed(folder, vae, seed)


def vae_calls(folder, seed):
    vae = AutoencoderKLWan.from_pretrained(with_weights(folder), dtype=torch.float32).eval()
    config, rng = vae.config, generator(seed + 1)
    ratio, patch = config.scale_factor_spatial, config.patch_size or 1
    mean = torch.tensor(config.latents_mean).view(1, -1, 1, 1, 1)
    std = torch.tensor(config.latents_std).view(1, -1, 1, 1, 1)

    def encode(name, description, video, debug=False):
        with Recorder() as recorder:
            if debug:
                watch_encoder(recorder, vae.encoder)
            posterior = vae.encode(video).latent_dist
        return Call(
            name, description, {}, {"video": video},
            {"mean": posterior.mean, "logvar": posterior.logvar}, recorder.joined(2),
        )  # fmt: skip

    def decode(name, description, shape, debug=False):
        z = normal(rng, *shape) * std + mean
        with Recorder() as recorder:
            recorder.watch("unclamped", vae.decoder)
            if debug:
                watch_decoder(recorder, vae.decoder)
            sample = vae.decode(z).sample
        inside = recorder.joined(2)
        unclamped = unpatchify(inside.pop("unclamped"), patch)
        assert torch.equal(sample, unclamped.clamp(-1, 1))
        return Call(name, description, {}, {"z": z}, {"unclamped": unclamped}, inside)

    z_dim = config.z_dim
    height, width = (3 * ratio, 2 * ratio) if ratio == 8 else (2 * ratio, ratio)
    h, w = height // ratio, width // ratio
    odd = smooth_video(rng, 1, 1, 3 * ratio, 5 * ratio)
    clip = smooth_video(rng, 1, 9, height, width)
    pair = smooth_video(rng, 2, 5, 2 * ratio, ratio)
    small = smooth_video(rng, 1, 5, 2 * ratio, 2 * ratio)
    whole = "intermediates: the outputs of all chunks joined in time"
    return [
        encode("encode_image", "one frame, odd latent sizes", odd),
        encode("encode_clip9", "nine frames", clip),
        encode("encode_batch", "five frames, batch of 2", pair),
        encode("encode_debug", f"five frames; {whole}", small, True),
        decode("decode_image", "one latent frame, odd sizes", (1, z_dim, 1, 3, 5)),
        decode("decode_clip9", "three latent frames", (1, z_dim, 3, h, w)),
        decode("decode_batch", "two latent frames, batch of 2", (2, z_dim, 2, 2, 1)),
        decode("decode_debug", f"three latent frames; {whole}", (1, z_dim, 3, 1, 2), True),
    ]


def watch_encoder(recorder, encoder):
    recorder.watch("conv_in", encoder.conv_in)
    for i, block in enumerate(encoder.down_blocks):
        recorder.watch(f"down_blocks.{i}", block)
    recorder.watch("mid_block", encoder.mid_block)
    recorder.watch("conv_out", encoder.conv_out)


def watch_decoder(recorder, decoder):
    recorder.watch("conv_in", decoder.conv_in)
    recorder.watch("mid_block.attentions.0", decoder.mid_block.attentions[0])
    recorder.watch("mid_block", decoder.mid_block)
    for i, block in enumerate(decoder.up_blocks):
        recorder.watch(f"up_blocks.{i}", block)


# One attention block of full width


def build_attention(folder, seed, dim):
    """A decoder's middle attention alone: a whole autoencoder of this width would be far too big
    for a repository. Names are those of the full file."""
    block = randomise(WanAttentionBlock(dim), seed, 1.3).half()
    prefix = "decoder.mid_block.attentions.0."
    tensors = {prefix + name: tensor for name, tensor in block.state_dict().items()}
    save_file(tensors, folder / "diffusion_pytorch_model.safetensors")
    keep_seed(folder, block, seed, prefix)


def attention_calls(folder, seed, dim):
    block = WanAttentionBlock(dim).eval()
    stored = load_file(with_weights(folder) / "diffusion_pytorch_model.safetensors")
    prefix = "decoder.mid_block.attentions.0."
    block.load_state_dict({name.removeprefix(prefix): t.float() for name, t in stored.items()})
    rng = generator(seed + 1)
    x = normal(rng, 1, dim, 2, 6, 5)
    description = f"two frames of 6x5 positions, one head of {dim}; each frame attends to itself"
    return [Call("frames2", description, {"dim": dim}, {"x": x}, {"output": block(x)})]
