"""Makes the goldens of whole LTX-2 pipelines under tests/goldens/ltx2.

    python3 tools/reference/ltx2_pipeline.py                 # make all
    python3 tools/reference/ltx2_pipeline.py NAME ...        # make some
    python3 tools/reference/ltx2_pipeline.py --check [NAME]  # read the stored ones back and run them again

Each is a folder as it is published, but for the weights, which are drawn from the seeds in the seeded.json of each component.
Images are not compressed before they are encoded (`image_crf=0`).
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from diffusers import (
    AutoencoderKLLTX2Audio,
    AutoencoderKLLTX2Video,
    FlowMatchEulerDiscreteScheduler,
    LTX2ConditionPipeline,
    LTX2ImageToVideoPipeline,
    LTX2InContextPipeline,
    LTX2LatentUpsamplePipeline,
    LTX2Pipeline,
)
from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel
from diffusers.pipelines.ltx2.pipeline_ltx2_condition import LTX2VideoCondition
from diffusers.pipelines.ltx2.pipeline_ltx2_ic_lora import LTX2ReferenceCondition
from diffusers.pipelines.ltx2.utils import DISTILLED_SIGMA_VALUES, STAGE_2_DISTILLED_SIGMA_VALUES
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder, LTX2VocoderWithBWE
from PIL import Image
from transformers import GemmaTokenizer
from transformers.audio_utils import mel_filter_bank

import common
from adapter_pairs import save_adapter
from common import Call, generator, make_goldens, normal
from gemma3 import text_encoder
from ltx2 import CONNECTORS, TINY, TINY23, connectors, transformer
from ltx2_coders import AUDIO, EXTENDED, PLAIN, UPSAMPLER, build_coder, build_upsampler, build_vocoder
from ltx2_coders import TINY as VIDEO_TINY
from qwen_image import picture, quiet
from seeded import with_weights
from unigram import OUT

FOLDER = common.GOLDENS.parent / "ltx2"

TEXT = dict(
    vocab_size=904, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    head_dim=32, sliding_window=16, query_pre_attn_scalar=32,
    layer_types=["sliding_attention", "sliding_attention", "full_attention"],
    rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
)
VIDEO = {**VIDEO_TINY, "latent_channels": 16}
SCHEDULER = dict(num_train_timesteps=1000, use_dynamic_shifting=True, base_image_seq_len=1024, max_image_seq_len=4096,
                 base_shift=0.95, max_shift=2.05, shift_terminal=0.1)
WIDTHS = {"in_channels": 16, "out_channels": 16, "audio_in_channels": 16, "audio_out_channels": 16,
          "vae_scale_factors": (8, 32, 32)}
# Heads of 128 and 64, every width a multiple of 64.
WIDE = {**TINY23, **WIDTHS, "num_attention_heads": 2, "attention_head_dim": 128, "cross_attention_dim": 256,
        "audio_num_attention_heads": 2, "audio_attention_head_dim": 64, "audio_cross_attention_dim": 128}
LATER = {**CONNECTORS, "caption_channels": 32, "text_proj_in_factor": 4, "per_modality_projections": True,
         "video_hidden_dim": 256, "audio_hidden_dim": 128, "video_connector_num_attention_heads": 2,
         "video_connector_attention_head_dim": 128, "audio_connector_num_attention_heads": 2,
         "audio_connector_attention_head_dim": 64, "rope_type": "split", "video_gated_attn": True, "audio_gated_attn": True,
         "proj_bias": True}
FIRST = {**CONNECTORS, "caption_channels": 32, "text_proj_in_factor": 4, "video_connector_num_attention_heads": 2,
         "video_connector_attention_head_dim": 16, "audio_connector_num_attention_heads": 2,
         "audio_connector_attention_head_dim": 16}


def coder(folder, seed, kind, build):
    build(folder, seed)
    return kind.from_pretrained(with_weights(folder), torch_dtype=torch.float32).eval()


def components(folder, seed, is_later):
    for name in ["text_encoder", "connectors", "transformer", "vae", "audio_vae", "vocoder", "scheduler", "tokenizer"]:
        (folder / name).mkdir(exist_ok=True, parents=True)
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(OUT / "gemma" / name, folder / "tokenizer" / name)
    kind, config = (LTX2VocoderWithBWE, EXTENDED) if is_later else (LTX2Vocoder, PLAIN)
    coders = {
        "vae": (AutoencoderKLLTX2Video, build_coder(AutoencoderKLLTX2Video, VIDEO, torch.bfloat16)),
        "audio_vae": (AutoencoderKLLTX2Audio, build_coder(AutoencoderKLLTX2Audio, AUDIO, torch.bfloat16)),
        "vocoder": (kind, build_vocoder(kind, config, torch.bfloat16)),
    }
    coders = {name: coder(folder / name, seed + 3 + i, *of) for i, (name, of) in enumerate(coders.items())}
    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.save_config(folder / "scheduler")
    classes = {
        "audio_vae": "AutoencoderKLLTX2Audio", "scheduler": "FlowMatchEulerDiscreteScheduler",
        "transformer": "LTX2VideoTransformer3DModel", "vae": "AutoencoderKLLTX2Video",
    }
    index = {
        "_class_name": "LTX2Pipeline",
        "_diffusers_version": "0.42.1",
        "connectors": ["ltx2", "LTX2TextConnectors"],
        **{name: ["diffusers", kind] for name, kind in classes.items()},
        "text_encoder": ["transformers", "Gemma3ForConditionalGeneration"],
        "tokenizer": ["transformers", "GemmaTokenizerFast"],
        "vocoder": ["ltx2", kind.__name__],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    encoder = text_encoder(folder / "text_encoder", seed, TEXT)
    encoder.lm_head = torch.nn.Identity()
    return {
        "text_encoder": encoder,
        "connectors": connectors(folder / "connectors", seed + 1, **(LATER if is_later else FIRST)),
        "transformer": transformer(folder / "transformer", seed + 2, **(
            WIDE if is_later else {**TINY, **WIDTHS, "caption_channels": 32})),
        **coders,
        "scheduler": scheduler,
        "tokenizer": GemmaTokenizer.from_pretrained(folder / "tokenizer"),
    }


def video_call(pipeline, name, seed, inputs=None, args=None, rng=None, hidden=(), **arguments):
    """Final latents of the video in the transformer's units, its frames in [0, 1], and its sound."""
    seen = {}

    def keep(_pipeline, _step, _timestep, state):
        seen["latents"] = state["latents"]
        return state

    video, audio = pipeline(
        generator=rng or generator(seed), output_type="np", callback_on_step_end=keep, return_dict=False, max_sequence_length=32,
        **arguments,
    )
    frames = (arguments["num_frames"] - 1) // 8 + 1
    rows, columns = arguments["height"] // 32, arguments["width"] // 32
    # Images that are no first frames are tokens of their own, after those of the video.
    latents = seen["latents"][:, :frames * rows * columns].unflatten(1, (frames, rows, columns)).permute(0, 4, 1, 2, 3)
    print(f"  {name}: loudness {audio.std():.3f}, most {audio.abs().max():.3f}")
    stored = {key: value for key, value in arguments.items() if key not in ("image", "conditions", "reference_conditions", *hidden)}
    # The first frame, that in the middle and the last one.
    kept = video[0][::(len(video[0]) - 1) // 2]
    outputs = {"latents": latents.contiguous(), "frames": torch.from_numpy(np.ascontiguousarray(kept)).float(),
               "audio": audio[0].float()}
    return Call(name, "a video with its sound", {"seed": seed, "max_sequence_length": 32, **stored, **(args or {})}, inputs or {},
                outputs)


PROMPT = "a bright red cat sleeps under the ancient mountain, soft wind"
PLAIN_GUIDANCE = dict(stg_scale=0.0, modality_scale=1.0, guidance_rescale=0.0, audio_guidance_scale=1.0, audio_stg_scale=0.0,
                      audio_modality_scale=1.0, audio_guidance_rescale=0.0)
# Every scale another one.
GUIDANCE = dict(guidance_scale=3.0, stg_scale=1.0, modality_scale=2.5, guidance_rescale=0.7, audio_guidance_scale=5.0,
                audio_stg_scale=0.5, audio_modality_scale=3.0, audio_guidance_rescale=0.4, spatio_temporal_guidance_blocks=[1])
SIZE = dict(height=64, width=96, num_frames=9, frame_rate=24.0)
LONG = dict(height=64, width=64, num_frames=17, frame_rate=24.0)
SMALL = dict(height=64, width=64, num_frames=9, frame_rate=12.5)

# What trainers adapt, under the original names.
ADAPTED = {
    "transformer_blocks.0.attn1.to_q": "transformer_blocks.0.attn1.to_q",
    "transformer_blocks.1.audio_attn2.to_out.0": "transformer_blocks.1.audio_attn2.to_out.0",
    "transformer_blocks.0.audio_to_video_attn.to_v": "transformer_blocks.0.audio_to_video_attn.to_v",
    "transformer_blocks.1.ff.net.2": "transformer_blocks.1.ff.net.2",
    "patchify_proj": "proj_in",
    "audio_adaln_single.linear": "audio_time_embed.linear",
}


def build(is_later):
    def write(folder, seed):
        parts = components(folder, seed, is_later)
        if is_later:
            save_adapter(folder, parts["transformer"], seed + 20, ADAPTED)

    return write


def calls23(folder, seed):
    parts = components(folder, seed, True)
    pipeline = quiet(LTX2Pipeline(**parts))
    image = picture(generator(seed + 9), 64, 96)
    calls = [
        video_call(pipeline, "text", 3, prompt=PROMPT, num_inference_steps=3, guidance_scale=1.0, **PLAIN_GUIDANCE, **LONG),
        video_call(pipeline, "guided", 4, prompt="a red cat", negative_prompt="blurry", num_inference_steps=3, **GUIDANCE, **SMALL),
    ]
    from_image = quiet(LTX2ImageToVideoPipeline(**parts))
    calls.append(video_call(from_image, "image", 5, {"image": image}, prompt="a red cat", negative_prompt="", image_crf=0,
                            image=Image.fromarray(image.numpy()), num_inference_steps=2, **GUIDANCE, **SIZE))
    conditioned = quiet(LTX2ConditionPipeline(**parts))
    given = lambda index, *images: LTX2VideoCondition(
        frames=np.stack([image.numpy() for image in images]), index=index, crf=0)
    rng = generator(seed + 10)
    ends = [picture(rng, 64, 64) for _ in range(2)]
    calls.append(video_call(conditioned, "ends", 8, {"image": ends[0], "last_image": ends[1]}, prompt="a red cat",
                            negative_prompt="", conditions=[given(0, ends[0]), given(-1, ends[1])], num_inference_steps=2,
                            **GUIDANCE, **SMALL))
    clip = [picture(rng, 64, 64) for _ in range(9)]
    calls.append(video_call(conditioned, "continued", 9, {"video": torch.stack(clip)}, prompt="a red cat",
                            conditions=[given(0, *clip)], num_inference_steps=2, guidance_scale=1.0, **PLAIN_GUIDANCE, **LONG))
    pipeline.load_lora_weights(folder / "adapter.safetensors", adapter_name="one")
    pipeline.set_adapters("one", 0.7)
    calls.append(video_call(pipeline, "adapted", 6, args={"strength": 0.7}, prompt="a red cat", num_inference_steps=2,
                            guidance_scale=1.0, **PLAIN_GUIDANCE, **SMALL))
    pipeline.unload_lora_weights()
    return calls


def build_stages(folder, seed, **options):
    config = {**UPSAMPLER, "in_channels": WIDTHS["in_channels"], **options}
    build_upsampler(config, torch.bfloat16)(folder / "latent_upsampler", seed)


def two_stages(folder, side=128):
    """Calls of a distilled model with an upsampler, of the other parts of `pipeline23`."""
    with tempfile.TemporaryDirectory() as model:
        parts = components(pathlib.Path(model), GOLDENS["pipeline23"][1], True)
    parts["scheduler"] = FlowMatchEulerDiscreteScheduler(shift=1.0)
    upsampler = LTX2LatentUpsamplerModel.from_pretrained(with_weights(folder / "latent_upsampler"), torch_dtype=torch.float32)
    enlarge = quiet(LTX2LatentUpsamplePipeline(vae=parts["vae"], latent_upsampler=upsampler.eval()))

    def stages(kind, name, seed, inputs, conditions=None, args=None):
        pipeline = quiet(kind(**parts))
        rng = generator(seed)
        given = {"conditions": conditions} if conditions else {}
        common = dict(prompt="a red cat", guidance_scale=1.0, frame_rate=24.0, num_frames=9, **PLAIN_GUIDANCE, **given)
        latents, audio = pipeline(generator=rng, output_type="latent", return_dict=False, max_sequence_length=32, height=64,
                                  width=64, sigmas=DISTILLED_SIGMA_VALUES, **common)
        large = enlarge(latents=latents, height=64, width=64, num_frames=9, output_type="latent", return_dict=False)[0]
        return video_call(
            pipeline, name, seed, inputs,
            {"two_stages": True, "num_inference_steps": len(DISTILLED_SIGMA_VALUES), **(args or {})}, rng,
            ("latents", "audio_latents", "sigmas", "noise_scale"), latents=large, audio_latents=audio, height=side, width=side,
            sigmas=STAGE_2_DISTILLED_SIGMA_VALUES, noise_scale=STAGE_2_DISTILLED_SIGMA_VALUES[0],
            num_inference_steps=len(STAGE_2_DISTILLED_SIGMA_VALUES), **common)

    return stages


def calls_stages(folder, seed, side=128):
    stages = two_stages(folder, side)
    rng = generator(seed + 1)
    images = [picture(rng, side, side) for _ in range(2)]
    conditions = [LTX2VideoCondition(frames=image.numpy()[None], index=index, crf=0) for image, index in zip(images, (0, -1))]
    return [
        stages(LTX2Pipeline, "text", 11, {}),
        stages(LTX2ConditionPipeline, "ends", 12, {"image": images[0], "last_image": images[1]}, conditions),
    ]


def build_half_more(folder, seed):
    build_stages(folder, seed, rational_spatial_scale=1.5)


def calls_half_more(folder, seed):
    return calls_stages(folder, seed, 96)[1:]


def calls_keyframes(folder, seed):
    """Images at frames of their own and with strengths, of the parts of `pipeline23`; in two stages with those of `stages`."""
    rng = generator(seed)

    def given(frames, strengths, side=64):
        images = [picture(rng, side, side) for _ in frames]
        # diffusers counts latent frames.
        conditions = [LTX2VideoCondition(frames=image.numpy()[None], index=-(-frame // 8), strength=strength, crf=0)
                      for image, frame, strength in zip(images, frames, strengths)]
        return ({"images": torch.stack(images)}, {"image_frames": list(frames), "image_strengths": list(strengths)}, conditions)

    with tempfile.TemporaryDirectory() as model:
        parts = components(pathlib.Path(model), GOLDENS["pipeline23"][1], True)
    calls = []
    for name, frames, strengths, options in [
        ("guided", (0, 1, 9), (0.8, 1.0, 0.6), dict(num_inference_steps=3, **GUIDANCE)),
        ("middle", (1,), (0.7,), dict(num_inference_steps=3, guidance_scale=1.0, **PLAIN_GUIDANCE)),
    ]:
        inputs, args, conditions = given(frames, strengths)
        calls.append(video_call(quiet(LTX2ConditionPipeline(**parts)), name, 31 + len(calls), inputs, args, prompt="a red cat",
                                negative_prompt="", conditions=conditions, **options, **LONG))
    inputs, args, conditions = given((0, 1), (0.7, 0.5), 128)
    with tempfile.TemporaryDirectory() as upsampler:
        build_stages(pathlib.Path(upsampler), GOLDENS["stages"][1])
        stages = two_stages(pathlib.Path(upsampler))
    calls.append(stages(LTX2ConditionPipeline, "stages", 33, inputs, conditions, args))
    return calls


def tones(rng, channels, samples, rate):
    """A few tones that come and go, and a little noise."""
    time = torch.arange(samples) / rate
    made = 0.02 * normal(rng, channels, samples)
    for hertz, loud, beat in [(220.0, 0.3, 3.0), (1330.0, 0.2, 5.0), (4700.0, 0.1, 2.0)]:
        phase = torch.arange(channels)[:, None] * 0.7
        made += loud * torch.sin(2 * torch.pi * hertz * time + phase) * (0.6 + 0.4 * torch.sin(2 * torch.pi * beat * time + phase))
    return made.clamp(-1, 1)


def mel_bands(sound, vae, size=1024):
    """The logarithm of mel bands, [1, channels, frames, bands], as Lightricks' `AudioProcessor` makes them."""
    rate, bands = vae.config.sample_rate, vae.config.mel_bins
    filters = mel_filter_bank(size // 2 + 1, bands, 0.0, rate / 2, rate, norm="slaney", mel_scale="slaney")
    spectrum = torch.stft(sound, size, vae.config.mel_hop_length, window=torch.hann_window(size), return_complex=True).abs()
    mel = torch.einsum("cft,fm->ctm", spectrum, torch.from_numpy(filters).float())
    return mel.clamp(min=1e-5).log()[None]


def hold_sound(transformer, latents):
    """The transformer as it is where the sound is given, as `freeze_audio` of diffusers' DFR pipeline has it."""
    forward = transformer.forward

    def held(audio_hidden_states, audio_timestep, **arguments):
        sound = latents.expand(audio_hidden_states.shape[0], -1, -1)
        end = torch.zeros_like(audio_timestep)
        video, audio = forward(**{
            **arguments, "audio_hidden_states": sound, "audio_timestep": end, "audio_sigma": end})
        return video, torch.zeros_like(audio)

    transformer.forward = held
    return forward


def calls_given(folder, seed):
    """A sound, and videos that LoRAs see beside that which is made, of the parts of `pipeline23`."""
    with tempfile.TemporaryDirectory() as model:
        parts = components(pathlib.Path(model), GOLDENS["pipeline23"][1], True)
    rng = generator(seed)
    vae = parts["audio_vae"]
    guided = dict(prompt="a red cat", negative_prompt="blurry", num_inference_steps=2, **GUIDANCE, **SMALL)
    image = picture(rng, 64, 64)
    rate = vae.config.sample_rate
    length = round(SMALL["num_frames"] / SMALL["frame_rate"] * rate)
    sound = tones(rng, 2, length, rate)
    mean = vae.encode(mel_bands(sound, vae)).latent_dist.mean.transpose(1, 2).flatten(2)
    count = round(SMALL["num_frames"] / SMALL["frame_rate"] * rate / vae.config.mel_hop_length / 4)
    latents = ((mean - vae.latents_mean) / vae.latents_std)[:, :count]
    forward = hold_sound(parts["transformer"], latents)
    heard = video_call(quiet(LTX2ImageToVideoPipeline(**parts)), "heard", 51, {"image": image, "sound": sound}, image_crf=0,
                       image=Image.fromarray(image.numpy()), **guided)
    heard.outputs["audio"] = latents
    parts["transformer"].forward = forward

    steered = quiet(LTX2InContextPipeline(**parts))
    clip = torch.stack([picture(rng, 64, 64) for _ in range(9)])
    seen = lambda frames, strength: [LTX2ReferenceCondition(frames=frames.permute(0, 3, 1, 2) / 255, strength=strength)]
    control = video_call(steered, "control", 52, {"control": clip}, {"control_scale": 0.8}, reference_conditions=seen(clip, 0.8),
                         **guided)
    large = torch.stack([picture(rng, 64, 64) for _ in range(9)])
    small = large.float().unflatten(1, (32, 2)).unflatten(3, (32, 2)).mean((2, 4))
    halved = video_call(steered, "halved", 53, {"control": large}, {"control_scale": 1.0}, reference_conditions=seen(small, 1.0),
                        reference_downscale_factor=2, prompt="a red cat", num_inference_steps=2, guidance_scale=1.0,
                        **PLAIN_GUIDANCE, **SMALL)
    # The other shows what becomes of the sound.
    del halved.outputs["audio"]
    return [heard, control, halved]


def calls_refined(folder, seed):
    """Two stages of a model that is not distilled: a LoRA in the second one alone."""
    with tempfile.TemporaryDirectory() as model:
        model = pathlib.Path(model)
        build(True)(model, GOLDENS["pipeline23"][1])
        parts = components(model, GOLDENS["pipeline23"][1], True)
        build_stages(model, GOLDENS["stages"][1])
        upsampler = LTX2LatentUpsamplerModel.from_pretrained(
            with_weights(model / "latent_upsampler"), torch_dtype=torch.float32)
        pipeline = quiet(LTX2Pipeline(**parts))
        rng = generator(41)
        common = dict(prompt="a red cat", num_frames=9, frame_rate=24.0)
        guided = dict(negative_prompt="blurry", num_inference_steps=2, **GUIDANCE)
        latents, audio = pipeline(generator=rng, output_type="latent", return_dict=False, max_sequence_length=32, height=64,
                                  width=64, **guided, **common)
        enlarge = quiet(LTX2LatentUpsamplePipeline(vae=parts["vae"], latent_upsampler=upsampler.eval()))
        large = enlarge(latents=latents, height=64, width=64, num_frames=9, output_type="latent", return_dict=False)[0]
        pipeline.load_lora_weights(model / "adapter.safetensors", adapter_name="one")
        pipeline.set_adapters("one", 0.7)
        pipeline.scheduler = FlowMatchEulerDiscreteScheduler.from_config(
            parts["scheduler"].config, use_dynamic_shifting=False, shift_terminal=None)
        return [video_call(
            pipeline, "refined", 41, None, {"two_stages": True, "strength": 0.7, **guided}, rng,
            ("latents", "audio_latents", "sigmas", "noise_scale"), latents=large, audio_latents=audio, height=128, width=128,
            sigmas=STAGE_2_DISTILLED_SIGMA_VALUES, noise_scale=STAGE_2_DISTILLED_SIGMA_VALUES[0], num_inference_steps=3,
            guidance_scale=1.0, **PLAIN_GUIDANCE, **common)]


def calls20(folder, seed):
    pipeline = quiet(LTX2Pipeline(**components(folder, seed, False)))
    guidance = {**GUIDANCE, "stg_scale": 0.0, "audio_stg_scale": 0.0}
    return [
        video_call(pipeline, "guided", 4, prompt=PROMPT, negative_prompt="blurry", num_inference_steps=3, **guidance, **SMALL),
        video_call(pipeline, "distilled", 7, prompt=" a red cat ", guidance_scale=1.0, num_inference_steps=3,
                   sigmas=[1.0, 0.9, 0.4], **PLAIN_GUIDANCE, **SMALL),
    ]


GOLDENS = {
    "pipeline23": ("LTX-2.3, pipeline", 461, build(True), calls23),
    "stages": ("LTX-2.3, distilled, two stages", 521, build_stages, calls_stages),
    "keyframes": ("LTX-2.3, images at frames of their own", 541, lambda folder, seed: None, calls_keyframes),
    "half_more": ("LTX-2.3, distilled, two stages of one and a half times the size", 581, build_half_more, calls_half_more),
    "given": ("LTX-2.3, a sound that is given, and control videos", 601, lambda folder, seed: None, calls_given),
    "refined": ("LTX-2.3, two stages with a LoRA in the second", 561, lambda folder, seed: None, calls_refined),
    "pipeline": ("LTX-2, pipeline", 481, build(False), calls20),
}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
