"""Writes the pipeline folder, in f16, as diffusers lays it out."""

import json
import shutil
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

import loop

LIMIT = 20_000_000


def export(args, work: Path):
    """Collects the stages' results into `args.out`; other files there, such as a README, stay."""
    log, out = loop.Log(work / "export.log"), Path(args.out)
    autoencoder = work / "vae_final"
    if not autoencoder.exists():
        autoencoder = work / "vae"
    pipeline = WanPipeline(
        tokenizer=PreTrainedTokenizerFast.from_pretrained(work / "tokenizer"),
        text_encoder=UMT5EncoderModel.from_pretrained(work / "text_encoder_final"),
        vae=AutoencoderKLWan.from_pretrained(autoencoder),
        transformer=WanTransformer3DModel.from_pretrained(work / "transformer"),
        scheduler=FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=args.shift),
        expand_timesteps=True)
    pipeline.to(torch.float16)
    fresh = work / "export"
    shutil.rmtree(fresh, ignore_errors=True)
    pipeline.save_pretrained(fresh, safe_serialization=True)
    index = json.loads((fresh / "model_index.json").read_text())
    index["tokenizer"] = ["transformers", "PreTrainedTokenizerFast"]  # newer names are unknown to transformers 4
    index["_native_sides"] = {"least": 64, "most": 96}  # the program enlarges what is much larger
    index["_takes_last_frame"] = True  # see last_frame.py
    (fresh / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    for config in fresh.rglob("*.json"):
        fields = json.loads(config.read_text())
        if fields.pop("_name_or_path", None) is not None:  # a path of the machine that trained
            config.write_text(json.dumps(fields, indent=2) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(work / "tokenizer" / name, fresh / "tokenizer" / name)
    files = [f for f in fresh.rglob("*") if f.is_file()]
    total = sum(f.stat().st_size for f in files)
    if total > LIMIT:
        raise RuntimeError(f"Cannot export: {total} bytes exceed the limit of {LIMIT}; lower --decoder-dim")
    out.mkdir(parents=True, exist_ok=True)
    for part in fresh.iterdir():
        target = out / part.name
        if part.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(part, target)
        else:
            shutil.copy(part, target)
    log(exported=str(out), bytes=total)
