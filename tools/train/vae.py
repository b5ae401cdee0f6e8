"""The autoencoder: an `AutoencoderKLWan` of the Wan 2.2 kind (residual, patch 2), spatial factor 8.

diffusers walks through clips in chunks with a cache per convolution. For training, the same arithmetic is
written here over the whole clip at once (`encode`, `decode`), with convolutions of single frames done in two
dimensions. `check_equivalence` compares both.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d, WanResidualBlock

import loop
from data import Sampler, draw_clips, draw_edits, draw_images
from render import EMOJI, PLAIN, Style

Z = 16
# Batches (kind, pixels, samples) in turn. Clips come out worse than stills, so the last stage has more of them.
JOINT_MIX = [("image", 64, 24), ("image", 96, 12), ("clip", 64, 3), ("edit", 64, 4), ("image", 64, 24),
             ("image", 96, 12), ("clip", 96, 2), ("image", 64, 24)]
DECODER_MIX = [("image", 64, 24), ("clip", 64, 3), ("image", 96, 12), ("clip", 96, 2), ("image", 64, 24),
               ("clip", 64, 3), ("image", 96, 12), ("edit", 96, 3)]
# Emoji have more in them than shapes.
if EMOJI:
    JOINT_MIX = [("image", 96, 12), ("image", 96, 12), ("clip", 96, 2), ("image", 96, 12), ("edit", 96, 3), ("image", 96, 12),
                 ("image", 64, 24), ("clip", 64, 3)]
CLIP_MIX = [("clip", 64, 6), ("clip", 96, 3), ("clip", 64, 6), ("edit", 64, 8), ("clip", 96, 3), ("image", 64, 24),
            ("clip", 64, 6), ("clip", 96, 3), ("edit", 96, 4), ("image", 96, 12)]

HARD = ["star", "star", "flower"]  # whose points and petals melt first


def build(encoder_dim: int = 16, decoder_dim: int = 32) -> AutoencoderKLWan:
    """A fresh autoencoder, with temporal taps nearly silent: single frames, seen first, do not train them."""
    model = AutoencoderKLWan(
        base_dim=encoder_dim, decoder_base_dim=decoder_dim, z_dim=Z, dim_mult=[1, 2, 2], num_res_blocks=1,
        is_residual=True, patch_size=2, in_channels=12, out_channels=12, temperal_downsample=[True, True],
        scale_factor_spatial=8, scale_factor_temporal=4, latents_mean=[0.0] * Z, latents_std=[1.0] * Z)
    with torch.no_grad():
        for name, module in model.named_modules():
            if not isinstance(module, WanCausalConv3d) or module.kernel_size[0] != 3:
                continue
            if "time_conv" in name:
                module.weight.zero_()
                module.bias.zero_()
                for out in range(module.weight.shape[0]):
                    module.weight[out, out % module.weight.shape[1], -1] = 1.0
            else:
                module.weight[:, :, :2] *= 0.05
                module.weight[:, :, 2] *= 3**0.5
    return model


def warm_start(model: AutoencoderKLWan, folder: Path) -> list[str]:
    """Copies every tensor of a saved autoencoder that has the same name and shape; returns what was left out."""
    source = AutoencoderKLWan.from_pretrained(folder, torch_dtype=torch.float32)
    own, left = model.state_dict(), []
    for name, value in source.state_dict().items():
        if name in own and own[name].shape == value.shape and not name.startswith("decoder.") or \
                name.startswith("decoder.") and source.config.decoder_base_dim == model.config.decoder_base_dim:
            own[name].copy_(value)
        else:
            left.append(name)
    model.register_to_config(latents_mean=source.config.latents_mean, latents_std=source.config.latents_std)
    return left


def _conv(module: torch.nn.Conv3d, x: torch.Tensor) -> torch.Tensor:
    """Causal convolution over the whole clip; one frame sees only the last temporal tap."""
    left, _, top, _, front, _ = module._padding
    if x.shape[2] == 1:
        y = F.conv2d(x[:, :, 0], module.weight[:, :, -1], module.bias, module.stride[1:], (top, left))
        return y[:, :, None]
    if module.kernel_size == (1, 1, 1):
        return F.conv3d(x, module.weight, module.bias)
    return F.conv3d(F.pad(x, (0, 0, 0, 0, front, 0)), module.weight, module.bias, module.stride, (0, top, left))


def _norm(module, x: torch.Tensor) -> torch.Tensor:
    scale = x.float().square().mean(1, keepdim=True).add(1e-12).rsqrt().to(x.dtype)
    return x * scale * module.gamma.view(1, -1, 1, 1, 1).to(x.dtype)


def _block(module: WanResidualBlock, x: torch.Tensor) -> torch.Tensor:
    shortcut = x if isinstance(module.conv_shortcut, torch.nn.Identity) else _conv(module.conv_shortcut, x)
    y = _conv(module.conv1, F.silu(_norm(module.norm1, x)))
    return shortcut + _conv(module.conv2, F.silu(_norm(module.norm2, y)))


def _attention(module, x: torch.Tensor) -> torch.Tensor:
    """One head over the pixels of each frame; plain softmax, whose bf16 backward is fast on CPUs."""
    b, c, t, h, w = x.shape
    y = x.transpose(1, 2).reshape(b * t, c, h, w)
    y = _norm(module.norm, y[:, :, None])[:, :, 0]
    q, k, v = F.conv2d(y, module.to_qkv.weight, module.to_qkv.bias).flatten(2).chunk(3, 1)
    weights = ((q.transpose(1, 2) @ k).float() * c**-0.5).softmax(-1).to(v.dtype)
    y = (v @ weights.transpose(1, 2)).view(b * t, c, h, w)
    y = F.conv2d(y, module.proj.weight, module.proj.bias)
    return x + y.view(b, t, c, h, w).transpose(1, 2)


def _mid(module, x: torch.Tensor) -> torch.Tensor:
    return _block(module.resnets[1], _attention(module.attentions[0], _block(module.resnets[0], x)))


def _frames(x: torch.Tensor, function) -> torch.Tensor:
    """Applies a function of [N, C, H, W] to each frame of a clip."""
    b, c, t, h, w = x.shape
    y = function(x.transpose(1, 2).reshape(b * t, c, h, w))
    return y.view(b, t, *y.shape[1:]).transpose(1, 2)


def _average_down(module, x: torch.Tensor) -> torch.Tensor:
    """The encoder's shortcut: space (and time) to channels, then means of groups; the first frame stands alone."""
    b, c, t, h, w = x.shape
    if module.factor_s == 1:
        y = x.view(b, c, 1, t, h, w)
    else:
        y = x.view(b, c, t, h // 2, 2, w // 2, 2).permute(0, 1, 4, 6, 2, 3, 5).reshape(b, c, 4, t, h // 2, w // 2)
    if module.factor_t == 2:
        y = F.pad(y, (0, 0, 0, 0, 1, 0))
        y = y.view(b, c, 4, (t + 1) // 2, 2, h // 2, w // 2).permute(0, 1, 4, 2, 3, 5, 6)
    y = y.reshape(b, module.out_channels, module.group_size, -1, h // module.factor_s, w // module.factor_s)
    return y.mean(2)


def _duplicate_up(module, x: torch.Tensor) -> torch.Tensor:
    """The decoder's shortcut: channels to space (and time); the first frame yields one frame."""
    b, _, t, h, w = x.shape
    y = x.repeat_interleave(module.repeats, 1).view(b, module.out_channels, module.factor_t, 2, 2, t, h, w)
    y = y.permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(b, module.out_channels, t * module.factor_t, 2 * h, 2 * w)
    return y[:, :, module.factor_t - 1:]


def _down(module, x: torch.Tensor) -> torch.Tensor:
    shortcut = _average_down(module.avg_shortcut, x)
    for block in module.resnets:
        x = _block(block, x)
    if module.downsampler is not None:
        conv = module.downsampler.resample[1]
        x = _frames(x, lambda f: F.conv2d(F.pad(f, (0, 1, 0, 1)), conv.weight, conv.bias, stride=2))
        if module.downsampler.mode == "downsample3d" and x.shape[2] > 1:
            time = module.downsampler.time_conv
            x = torch.cat([x[:, :, :1], F.conv3d(x, time.weight, time.bias, stride=(2, 1, 1))], 2)
    return x + shortcut


def _up(module, x: torch.Tensor) -> torch.Tensor:
    source = x
    for block in module.resnets:
        x = _block(block, x)
    if module.upsampler is None:
        return x
    if module.upsampler.mode == "upsample3d" and x.shape[2] > 1:
        time = module.upsampler.time_conv
        first, rest = x[:, :, :1], x[:, :, 1:]
        b, c, t, h, w = rest.shape
        y = F.conv3d(F.pad(rest, (0, 0, 0, 0, 2, 0)), time.weight, time.bias)
        y = y.view(b, 2, c, t, h, w).permute(0, 2, 3, 1, 4, 5).reshape(b, c, 2 * t, h, w)
        x = torch.cat([first, y], 2)
    conv = module.upsampler.resample[1]
    x = _frames(x, lambda f: F.conv2d(F.interpolate(f, scale_factor=2.0, mode="nearest"), conv.weight, conv.bias,
                                      padding=1))
    return x + _duplicate_up(module.avg_shortcut, source)


def encode(model: AutoencoderKLWan, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and log-variance [N, 16, 1 + (F-1)/4, H/8, W/8] of pixels [N, 3, F, H, W] in [-1, 1]."""
    b, c, t, h, w = pixels.shape
    x = pixels.view(b, c, t, h // 2, 2, w // 2, 2).permute(0, 1, 6, 4, 2, 3, 5).reshape(b, c * 4, t, h // 2, w // 2)
    encoder = model.encoder
    x = _conv(encoder.conv_in, x)
    for block in encoder.down_blocks:
        x = _down(block, x)
    x = _conv(encoder.conv_out, F.silu(_norm(encoder.norm_out, _mid(encoder.mid_block, x))))
    mean, variance = _conv(model.quant_conv, x).float().chunk(2, 1)
    return mean, variance.clamp(-30, 20)


def decode(model: AutoencoderKLWan, z: torch.Tensor) -> torch.Tensor:
    """Pixels of latents, *not* clamped: clamping would kill the gradient of saturated (white, black) pixels."""
    decoder = model.decoder
    x = _mid(decoder.mid_block, _conv(decoder.conv_in, _conv(model.post_quant_conv, z)))
    for block in decoder.up_blocks:
        x = _up(block, x)
    x = _conv(decoder.conv_out, F.silu(_norm(decoder.norm_out, x))).float()
    b, _, t, h, w = x.shape
    return x.view(b, 3, 2, 2, t, h, w).permute(0, 1, 4, 5, 3, 6, 2).reshape(b, 3, t, 2 * h, 2 * w)


@torch.no_grad()
def check_equivalence(model: AutoencoderKLWan) -> float:
    """Largest difference between this file's arithmetic and diffusers' own, for 1, 5 and 9 frames."""
    sampler, worst = Sampler(3), 0.0
    scenes = [sampler.clip() for _ in range(2)]
    for frames in (1, 5, 9):
        clip = draw_clips(scenes, 64)[:, :, :frames]
        ours, theirs = encode(model, clip)[0], model.encode(clip).latent_dist.mean
        worst = max(worst, (ours - theirs).abs().max().item())
        worst = max(worst, (decode(model, theirs).clamp(-1, 1) - model.decode(theirs).sample).abs().max().item())
    return worst


def edge_weights(x: torch.Tensor, strength: float) -> torch.Tensor:
    """1 in flat areas, 1 + strength within two pixels of an edge: [N, 1, F, H, W]."""
    b, c, t, h, w = x.shape
    f = x.transpose(1, 2).reshape(b * t, c, h, w)
    across = F.pad((f[..., 1:] - f[..., :-1]).abs().sum(1, keepdim=True), (0, 1))
    down = F.pad((f[..., 1:, :] - f[..., :-1, :]).abs().sum(1, keepdim=True), (0, 0, 0, 1))
    near = F.max_pool2d((across + down > 0.08).float(), 5, 1, 2)
    return 1 + strength * near.view(b, t, 1, h, w).transpose(1, 2)


def corner_weights(x: torch.Tensor, strength: float) -> torch.Tensor:
    """0 in flat areas and along straight edges, up to `strength` in points, corners and notches: [N, 1, F, H, W].

    There, a pixel differs from most of the 7x7 around it.
    """
    b, c, t, h, w = x.shape
    f = x.transpose(1, 2).reshape(b * t, c, h, w)
    around = F.pad(f, (3, 3, 3, 3), mode="replicate")
    contrast = (F.max_pool2d(around, 7, 1) + F.max_pool2d(-around, 7, 1)).amax(1, keepdim=True)
    apart = (f - F.avg_pool2d(around, 7, 1)).abs().amax(1, keepdim=True)
    sharp = ((apart / contrast.clamp(min=0.15) - 0.55) / 0.45).clamp(0, 1)
    return strength * sharp.view(b, t, 1, h, w).transpose(1, 2)


def reconstruction_loss(y: torch.Tensor, x: torch.Tensor, late: float = 1.0, corners: float = 0.0) -> torch.Tensor:
    """L1, five-fold near edges, plus L1 of the differences of neighbouring pixels.

    `late` weighs a clip's last frame, `corners` points and corners.
    """
    error = y - x
    if late != 1 and error.shape[2] > 1:
        weight = torch.linspace(1, late, error.shape[2])
        error = error * (weight / weight.mean()).view(1, 1, -1, 1, 1)
    slopes = (error[..., 1:] - error[..., :-1]).abs().mean() + (error[..., 1:, :] - error[..., :-1, :]).abs().mean()
    weights = edge_weights(x, 4.0)
    if corners:
        weights = weights + corner_weights(x, corners)
    return (error.abs() * weights).mean() + 0.5 * slopes


def psnr(y: torch.Tensor, x: torch.Tensor) -> float:
    """Mean PSNR in dB of images in [-1, 1]."""
    return (10 * torch.log10(4 / (y.clamp(-1, 1) - x).square().flatten(1).mean(1))).mean().item()


def batch(sampler: Sampler, kind: str, size: int, count: int, hard: float = 0.0, pale: float = 0.0) -> torch.Tensor:
    """Pixels of one training batch, with a slight tint so that palettes are not learned by heart.

    `hard` is the share of scenes whose first object must be one that the autoencoder draws worst; `pale` is the chance
    that the whole batch is pale, as the adapter `pastel` draws.
    """
    draw, scene = {"image": (draw_images, sampler.image), "clip": (draw_clips, sampler.clip),
                   "edit": (draw_edits, sampler.edit)}[kind]

    def one():
        wanted = sampler.random.choice(HARD) if sampler.random.random() < hard else None
        while True:
            drawn = scene()
            if wanted in (None, drawn.objects[0][0]):
                return drawn

    style = PLAIN
    if sampler.random.random() < pale:
        style = Style(paint=sampler.random.uniform(0.3, 0.6), paper=sampler.random.uniform(0.6, 0.9))
    x = draw([one() for _ in range(count)], size, style)
    return (x + 0.04 * torch.randn(count, 3, 1, 1, 1)).clamp(-1, 1)


def train(args, work: Path):
    """Trains encoder and decoder, or with `--decoder-only` the decoder against latents that stay as they are."""
    log = loop.Log(work / "vae.log")
    path = work / ("decoder.pt" if args.decoder_only else "vae.pt")
    model = build(args.encoder_dim, args.decoder_dim)
    if args.decoder_only:
        finished = AutoencoderKLWan.from_pretrained(work / "vae")
        model.load_state_dict(finished.state_dict())
        model.register_to_config(**{k: finished.config[k] for k in ("latents_mean", "latents_std")})
    elif args.init_from:
        left = warm_start(model, Path(args.init_from) / "vae")
        log(warm_start=args.init_from, left_out=len(left))
    log(parameters=sum(p.numel() for p in model.parameters()), equivalence=check_equivalence(model))
    of_encoder = [p for n, p in model.named_parameters() if n.startswith(("encoder", "quant_conv"))]
    of_decoder = [p for n, p in model.named_parameters() if n.startswith(("decoder", "post_quant"))]
    groups = [{"params": of_decoder, "base": args.lr}, {"params": of_encoder, "base": args.encoder_lr or args.lr}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), weight_decay=1e-4)
    average = loop.Average(list(model.parameters()), 0.996)
    step, spent = 0, 0.0
    if state := loop.load_checkpoint(path):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average.values, average.steps, step, spent = state["average"], state["step"], state["step"], state["spent"]
    budget = loop.Budget(args.minutes, args.pause_file, spent)
    saving, reporting = loop.Every(60, spent), loop.Every(45, spent)
    sampler = Sampler(1000 + args.seed + step)
    std = torch.tensor(model.config.latents_std).view(1, -1, 1, 1, 1)

    def save():
        loop.save_checkpoint(path, {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                    "average": average.values, "step": step, "spent": budget.spent})

    run_encode, run_decode = encode, decode
    if args.compile:
        torch._dynamo.config.cache_size_limit = 64
        run_encode, run_decode = torch.compile(encode, dynamic=False), torch.compile(decode, dynamic=False)
    mix = CLIP_MIX if args.mix == "clips" else DECODER_MIX if args.decoder_only else JOINT_MIX
    while budget.tick():
        fraction = budget.fraction
        kind, size, count = mix[step % len(mix)]
        if fraction < args.images_until and kind != "image":
            kind, size, count = "image", 64, 24
        factor = loop.warmup_cosine(step, fraction)
        frozen = args.decoder_only or fraction < args.freeze_encoder_until
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * factor
        for p in of_encoder:
            p.requires_grad_(not frozen)
        x = batch(sampler, kind, size, count, args.hard, args.pale)
        still = kind == "image"  # compiling gains 1.5 on stills and nothing on clips
        with loop.autocast("cpu"):
            with torch.set_grad_enabled(not frozen):
                mean, variance = (run_encode if still else encode)(model, x)
            if args.decoder_only:  # what a transformer makes is less exact than what the encoder does
                noise = args.noise * 2 * torch.rand(len(x), 1, 1, 1, 1) * std
            else:
                noise = (0.5 * variance).exp()
            y = (run_decode if still else decode)(model, mean + torch.randn_like(mean) * noise)
        loss = reconstruction_loss(y, x, args.late, args.corners)
        if not frozen:
            loss = loss + args.kl * 0.5 * (mean.square() + variance.exp() - 1 - variance).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update()
        step += 1
        if reporting(budget.spent):
            average.swap()
            log(stage=path.stem, minute=budget.spent / 60, step=step, loss=loss.item(), frozen=frozen, **measure(model))
            average.swap()
        if saving(budget.spent):
            save()
    save()
    budget.end_if_stopped()
    average.swap()
    model.eval()
    if not args.decoder_only and not args.keep_scale:
        mean, deviation = statistics(model)
        model.register_to_config(latents_mean=mean, latents_std=deviation)
    log(stage=path.stem, done=True, step=step, **measure(model))
    model.save_pretrained(work / ("vae_final" if args.decoder_only else "vae"))


@torch.no_grad()
def measure(model: AutoencoderKLWan) -> dict[str, float]:
    """PSNR on held-out stills at 64 and 96 pixels and on clips."""
    sampler, result = Sampler(99, held_out=True), {}
    sets = (("psnr64", "image", 64, 64), ("psnr96", "image", 96, 32), ("clip64", "clip", 64, 8))
    for name, kind, size, count in sets:
        x = batch(sampler, kind, size, count)
        result[name] = psnr(decode(model, encode(model, x)[0]), x)
    return result


@torch.no_grad()
def statistics(model: AutoencoderKLWan) -> tuple[list[float], list[float]]:
    """Per-channel mean and deviation of latents over stills and clips, for the pipeline's normalisation."""
    sampler, parts = Sampler(5), []
    for kind, size, count in [("image", 64, 256)] * 4 + [("image", 96, 128)] * 2 + [("clip", 64, 32)] * 3:
        z = encode(model, batch(sampler, kind, size, count))[0]
        parts.append(z.transpose(0, 1).flatten(1))
    z = torch.cat(parts, 1)
    return ([round(v, 5) for v in z.mean(1).tolist()], [round(v, 5) for v in z.std(1).tolist()])
