"""Trains the bundled model, stage by stage. See README.md for the commands and what they cost.

Every stage keeps a checkpoint in the work folder once a minute: SIGTERM ends it cleanly, and the same command
continues where it stopped. While the pause file exists, the trainer sleeps.
"""

import argparse
import importlib
from pathlib import Path

import loop

# Shares of `all --minutes`, found by looking at which figure was behind.
STAGES = {"text": 0.05, "vae": 0.35, "pool": 0.0, "transformer": 0.42, "decoder": 0.18, "export": 0.0}
OTHERS = {"judge": ("judge", "train")}  # stages that give no part of the model


def parser() -> argparse.ArgumentParser:
    """The command line: common options, then those of single stages."""
    root = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root.add_argument("stage", choices=[*STAGES, *OTHERS, "all"])
    root.add_argument("--minutes", type=float, default=10, help="time budget of the stage, or of all stages")
    root.add_argument("--work", default="build/train", help="folder of checkpoints, logs and stage results")
    root.add_argument("--out", default="models/bundled", help="pipeline folder that export writes")
    root.add_argument("--init-from", help="pipeline folder whose weights to start from, where shapes agree")
    root.add_argument("--pause-file", help="sleep while this file exists")
    root.add_argument("--threads", type=int, default=2)
    root.add_argument("--seed", type=int, default=0)
    root.add_argument("--no-compile", dest="compile", action="store_false")
    root.add_argument("--mix", choices=["stills", "clips"], default="stills", help="what batches are mostly of")
    root.add_argument("--late", type=float, default=1.0, help="weight of a clip's last frame over its first")
    vae = root.add_argument_group("vae, decoder")
    vae.add_argument("--encoder-dim", type=int, default=16)
    vae.add_argument("--decoder-dim", type=int, default=32)
    vae.add_argument("--kl", type=float, default=2e-4)
    vae.add_argument("--freeze-encoder-until", type=float, default=0.0, help="fraction of the vae stage")
    vae.add_argument("--images-until", type=float, default=0.2, help="fraction of the stage without clips")
    vae.add_argument("--lr", type=float, default=2e-3)
    vae.add_argument("--encoder-lr", type=float)
    vae.add_argument("--hard", type=float, default=0.0, help="share of scenes with a star or a flower")
    vae.add_argument("--pale", type=float, default=0.0, help="share of batches in pale colours")
    vae.add_argument("--corners", type=float, default=0.0, help="further weight of points and corners")
    vae.add_argument("--noise", type=float, default=0.04, help="decoder: mean deviation of latents, as a share")
    vae.add_argument("--keep-scale", action="store_true", help="keep the scaling of latents that --init-from has")
    dit = root.add_argument_group("transformer")
    dit.add_argument("--pool-scale", type=float, default=1.0, help="size of the latent pool")
    dit.add_argument("--clips-from", type=float, default=0.2, help="fraction of the stage before clips and edits")
    dit.add_argument("--muon-lr", type=float, default=0.012)
    dit.add_argument("--adam-lr", type=float, default=1.5e-3)
    dit.add_argument("--freeze-text", action="store_true", help="keep the text encoder of --init-from as it is")
    dit.add_argument("--text-lr", type=float, default=5e-4)
    dit.add_argument("--shift", type=float, default=1.5, help="flow shift that export writes for the scheduler")
    return root


def run(stage: str, args: argparse.Namespace, work: Path):
    """Runs one stage; the module is loaded late, so that a stage needs only its own libraries."""
    args.decoder_only = stage == "decoder"
    module, function = {"text": ("text_encoder", "train"), "vae": ("vae", "train"), "decoder": ("vae", "train"),
                        "pool": ("pool", "build"), "transformer": ("transformer", "train"),
                        "export": ("export", "export"), **OTHERS}[stage]
    getattr(importlib.import_module(module), function)(args, work)


def main():
    args = parser().parse_args()
    work = Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    loop.setup(args.threads, args.seed)
    if args.stage != "all":
        return run(args.stage, args, work)
    total = args.minutes
    for stage, share in STAGES.items():
        args.minutes = total * share
        run(stage, args, work)


if __name__ == "__main__":
    main()
