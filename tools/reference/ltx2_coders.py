"""Makes the goldens of LTX-2's autoencoders, vocoders and latent upsamplers under tests/goldens/ltx2_coders.

    python3 tools/reference/ltx2_coders.py                 # make all
    python3 tools/reference/ltx2_coders.py NAME ...        # make some
    python3 tools/reference/ltx2_coders.py --check [NAME]  # read the stored ones back and run them again
"""

import torch
from diffusers import AutoencoderKLLTX2Audio, AutoencoderKLLTX2Video
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder, LTX2VocoderWithBWE

import common
from common import Call, generator, make_goldens, normal, randomise
from seeded import keep_seed, seed_weights, with_weights

FOLDER = common.GOLDENS.parent / "ltx2_coders"


def video(rng, frames, height, width):
    """Smooth moving pictures, as bytes, with a little noise."""
    coarse = normal(rng, 1, 3, max(2, frames // 4), max(2, height // 12), max(2, width // 12))
    smooth = torch.nn.functional.interpolate(coarse, (frames, height, width), mode="trilinear")
    noisy = 0.6 * smooth + 0.05 * normal(rng, 1, 3, frames, height, width)
    return ((noisy.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)


# The ways of LTX-2: four levels down, three up, mirrored edges and no causality in the decoder.
TINY = dict(
    latent_channels=8, block_out_channels=(8, 16, 16, 32), decoder_block_out_channels=(8, 16, 32),
    layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1), decoder_causal=False,
    spatial_compression_ratio=32, temporal_compression_ratio=8,
)  # fmt: skip
# Those of LTX-2.3: four levels up that differ in what they scale, no shortcuts, zeros around.
UNLIKE = dict(
    TINY, decoder_block_out_channels=(4, 8, 16, 32), decoder_layers_per_block=(1, 2, 1, 1, 1),
    decoder_spatio_temporal_scaling=(True,) * 4, decoder_inject_noise=(False,) * 5,
    upsample_type=("spatiotemporal", "spatiotemporal", "temporal", "spatial"),
    upsample_residual=(False,) * 4, upsample_factor=(1, 1, 2, 2),
    decoder_spatial_padding_mode="zeros", decoder_causal=True,
)  # fmt: skip
# Production's widths in its last two levels.
WIDE = dict(
    latent_channels=128, block_out_channels=(128, 256), down_block_types=("LTX2VideoDownBlock3D",) * 2,
    decoder_block_out_channels=(128, 256),
    layers_per_block=(1, 1, 1), decoder_layers_per_block=(1, 1, 1), spatio_temporal_scaling=(True,) * 2,
    decoder_spatio_temporal_scaling=(True,) * 2, decoder_inject_noise=(False,) * 3,
    downsample_type=("spatial", "spatiotemporal"), upsample_type=("spatiotemporal", "spatial"),
    upsample_residual=(True,) * 2, upsample_factor=(2, 2), decoder_causal=False,
    spatial_compression_ratio=16, temporal_compression_ratio=2,
)  # fmt: skip


def build_coder(kind, config, dtype):
    def build(folder, seed):
        vae = randomise(kind(**config), seed)
        rng = generator(seed + 9)
        vae.latents_mean.copy_(normal(rng, *vae.latents_mean.shape, std=0.3))
        vae.latents_std.copy_(normal(rng, *vae.latents_std.shape, mean=1.0, std=0.1))
        vae.to(dtype).save_pretrained(folder)
        keep_seed(folder, vae, seed)

    return build


def video_calls(sizes, latents):
    def calls(folder, seed):
        vae = AutoencoderKLLTX2Video.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
        rng = generator(seed + 1)
        made = []
        for name, size in sizes.items():
            frames = video(rng, *size)
            mean = vae.encode(frames / 127.5 - 1).latent_dist.mean
            center, spread = (x.view(1, -1, 1, 1, 1) for x in (vae.latents_mean, vae.latents_std))
            outputs = {"mean": mean, "normalised": (mean - center) * vae.config.scaling_factor / spread}
            made.append(Call(name, "means of the latents", {}, {"video": frames}, outputs))
        for name, size in latents.items():
            z = normal(rng, 1, vae.config.latent_channels, *size)
            outputs = {"pixels": vae.decode(z).sample}
            made.append(Call(name, "pixels, not clamped", {}, {"z": z}, outputs))
        return made

    return calls


AUDIO = dict(
    base_channels=16, latent_channels=4, mel_bins=16, norm_type="pixel", causality_axis="height",
    mid_block_add_attention=False, num_res_blocks=1,
)  # fmt: skip
AUDIO_WIDE = dict(AUDIO, base_channels=128, latent_channels=8, mel_bins=64, ch_mult=(1, 2, 2))


def audio_calls(frames):
    def calls(folder, seed):
        vae = AutoencoderKLLTX2Audio.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
        rng = generator(seed + 1)
        channels, bins = vae.config.latent_channels, vae.config.mel_bins
        packed = normal(rng, 1, frames, channels * bins // 4)
        own = packed * vae.latents_std + vae.latents_mean
        z = own.unflatten(2, (channels, -1)).transpose(1, 2)
        decoded = Call("decode", "mel from packed, normalised latents", {}, {"packed": packed}, {"mel": vae.decode(z).sample})
        mel = normal(rng, 1, vae.config.in_channels, 4 * frames - 3, bins)
        mean = vae.encode(mel).latent_dist.mean.transpose(1, 2).flatten(2)
        outputs = {"packed": (mean - vae.latents_mean) / vae.latents_std}
        encoded = Call("encode", "means, packed and normalised", {}, {"mel": mel}, outputs)
        return [decoded, encoded]

    return calls


# LTX-2's vocoder, and that of LTX-2.3 with its bandwidth extension: as many samples for each of 100 mel frames a second as
# they make of one.
PLAIN = dict(
    in_channels=32, hidden_channels=32, upsample_kernel_sizes=[16, 15, 4], upsample_factors=[6, 5, 2],
    resnet_kernel_sizes=[3, 7], resnet_dilations=[[1, 3, 5], [1, 3, 5]], output_sampling_rate=6000,
)  # fmt: skip
EXTENDED = dict(
    in_channels=32, hidden_channels=32, upsample_kernel_sizes=[11, 4, 4], upsample_factors=[5, 2, 2],
    resnet_kernel_sizes=[3, 7], resnet_dilations=[[1, 3, 5], [1, 3, 5]],
    bwe_in_channels=16, bwe_hidden_channels=32, bwe_upsample_kernel_sizes=[12, 4], bwe_upsample_factors=[6, 2],
    bwe_resnet_kernel_sizes=[3, 11], bwe_resnet_dilations=[[1, 3, 5], [1, 3, 5]],
    filter_length=16, hop_length=4, window_length=16, num_mel_channels=8, input_sampling_rate=2000,
    output_sampling_rate=6000,
)  # fmt: skip
# Production's first level, with the kernels and the widest convolutions of all.
VOCODER_WIDE = dict(
    PLAIN, in_channels=128, hidden_channels=256, upsample_kernel_sizes=[11], upsample_factors=[5],
    resnet_kernel_sizes=[3, 7, 11], resnet_dilations=[[1, 3, 5]] * 3, act_fn="snakebeta", antialias=True,
    final_act_fn=None, final_bias=False,
)  # fmt: skip


def build_vocoder(kind, config, dtype):
    def build(folder, seed):
        vocoder = randomise(kind(**config), seed)
        for name, parameter in vocoder.named_parameters():
            # Of the size of real ones: else layer by layer everything would grow or fade.
            if "upsamplers" in name and parameter.ndim == 3:
                common.multiply(parameter, 2.0)
        if kind is LTX2VocoderWithBWE:
            common.multiply(vocoder.vocoder.conv_out.weight, 0.02)
            common.multiply(vocoder.bwe_generator.conv_out.weight, 0.01)
            stft = vocoder.mel_stft
            time = torch.arange(16) / 16
            window = torch.hann_window(16)
            waves = [wave(2 * torch.pi * k * time) * window for wave in (torch.cos, torch.sin) for k in range(9)]
            stft.stft_fn.forward_basis.copy_(torch.stack(waves)[:, None])
            stft.mel_basis.copy_(normal(generator(seed + 9), 8, 9).abs())
        vocoder.to(dtype).save_pretrained(folder)
        keep_seed(folder, vocoder, seed)

    return build


def vocoder_calls(kind, frames):
    def calls(folder, seed):
        vocoder = kind.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
        mel = normal(generator(seed + 1), 1, 2, frames, vocoder.config.in_channels // 2)
        waveform = vocoder(mel)
        print(f"  {folder.name}: loudness {waveform.std():.3f}, most {waveform.abs().max():.3f}")
        return [Call("waveform", "sound of a mel spectrogram", {}, {"mel": mel}, {"waveform": waveform})]

    return calls


def sound_calls(folder, seed):
    """Latents to sound, by the small autoencoder and vocoder of other goldens."""
    vae = AutoencoderKLLTX2Audio.from_pretrained(with_weights(FOLDER / "audio-tiny"), torch_dtype=torch.float32).eval()
    vocoder = LTX2Vocoder.from_pretrained(with_weights(FOLDER / "vocoder-tiny"), torch_dtype=torch.float32).eval()
    packed = normal(generator(seed), 1, 5, 16)
    z = (packed * vae.latents_std + vae.latents_mean).unflatten(2, (4, -1)).transpose(1, 2)
    outputs = {"waveform": vocoder(vae.decode(z).sample)}
    return [Call("sound", "sound of packed, normalised latents", {}, {"packed": packed}, outputs)]


UPSAMPLER = dict(in_channels=8, mid_channels=32, num_blocks_per_stage=1)


def build_upsampler(config, dtype):
    def build(folder, seed):
        model = randomise(LTX2LatentUpsamplerModel(**config), seed)
        model.to(dtype).save_pretrained(folder)
        keep_seed(folder, model, seed)

    return build


def upsampler_calls(folder, seed):
    model = LTX2LatentUpsamplerModel.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()
    z = normal(generator(seed + 1), 1, model.config.in_channels, 3, 4, 6)
    return [Call("upsample", "larger latents, not normalised", {}, {"z": z}, {"larger": model(z)})]


F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
# name -> (description, seed, build, calls)
GOLDENS = {
    "video-tiny": (
        "AutoencoderKLLTX2Video with the ways of LTX-2, float32", 900, build_coder(AutoencoderKLLTX2Video, TINY, F32),
        video_calls({"image": (1, 64, 96), "clip": (17, 64, 64)}, {"decode": (3, 2, 2)}),
    ),
    "video-unlike": (
        "AutoencoderKLLTX2Video with other ways, causal, bfloat16", 910, build_coder(AutoencoderKLLTX2Video, UNLIKE, BF16),
        video_calls({"clip": (9, 64, 64)}, {"decode": (2, 2, 2)}),
    ),
    "video-wide": (
        "AutoencoderKLLTX2Video with wide levels, bfloat16", 920, build_coder(AutoencoderKLLTX2Video, WIDE, BF16),
        video_calls({"image": (1, 32, 48)}, {"decode": (2, 2, 3)}),
    ),
    "audio-tiny": ("AutoencoderKLLTX2Audio, float32", 930, build_coder(AutoencoderKLLTX2Audio, AUDIO, F32), audio_calls(6)),
    "audio-wide": ("AutoencoderKLLTX2Audio with wide levels, bfloat16", 940, build_coder(AutoencoderKLLTX2Audio, AUDIO_WIDE, BF16), audio_calls(3)),
    "vocoder-tiny": (
        "LTX2Vocoder, float32", 950, build_vocoder(LTX2Vocoder, PLAIN, F32), vocoder_calls(LTX2Vocoder, 21),
    ),
    "vocoder-extended": (
        "LTX2VocoderWithBWE, bfloat16", 960, build_vocoder(LTX2VocoderWithBWE, EXTENDED, BF16),
        vocoder_calls(LTX2VocoderWithBWE, 21),
    ),
    "vocoder-wide": (
        "LTX2Vocoder with snake and wide levels, bfloat16", 970, build_vocoder(LTX2Vocoder, VOCODER_WIDE, BF16),
        vocoder_calls(LTX2Vocoder, 9),
    ),
    "sound": ("audio-tiny, then vocoder-tiny", 975, None, sound_calls),
    "upsampler-rational": (
        "LTX2LatentUpsamplerModel, twice the size, float32", 980, build_upsampler(UPSAMPLER, F32), upsampler_calls,
    ),
    "upsampler-half": (
        "LTX2LatentUpsamplerModel, one and a half times the size, float32", 981,
        build_upsampler(dict(UPSAMPLER, rational_spatial_scale=1.5), F32), upsampler_calls,
    ),
    "upsampler-plain": (
        "LTX2LatentUpsamplerModel without rational scale, float16", 982,
        build_upsampler(dict(UPSAMPLER, use_rational_resampler=False), F16), upsampler_calls,
    ),
    "upsampler-temporal": (
        "LTX2LatentUpsamplerModel, twice the frames, float32", 983,
        build_upsampler(dict(UPSAMPLER, spatial_upsample=False, temporal_upsample=True), F32), upsampler_calls,
    ),
    "upsampler-both": (
        "LTX2LatentUpsamplerModel, twice the size and the frames, float32", 984,
        build_upsampler(dict(UPSAMPLER, temporal_upsample=True), F32), upsampler_calls,
    ),
}  # fmt: skip


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
