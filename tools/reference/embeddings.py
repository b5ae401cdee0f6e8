"""Makes files of textual inversions under tests/goldens/embeddings, in every form that trainers write.

    python3 tools/reference/embeddings.py

`values.golden`, a file of safetensors, holds the vectors of each, named `<file>.<width>`. Widths are 6 and 10.
"""

import shutil

import torch
from safetensors.torch import save_file

import common
from common import generator, normal

FOLDER = common.GOLDENS.parent / "embeddings"


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    rng = generator(1)
    draw = lambda *shape: normal(rng, *shape)
    values = {}

    def keep(file, *vectors):
        for each in vectors:
            values[f"{file}.{each.shape[-1]}"] = each.detach().float().reshape(-1, each.shape[-1]).clone()

    # The code of the paper: a module.
    vectors = draw(2, 6)
    module = torch.nn.ParameterDict({"*": torch.nn.Parameter(vectors)})
    torch.save({"string_to_token": {"*": torch.tensor(265)}, "string_to_param": module}, FOLDER / "module.pt")
    keep("module", vectors)
    # AUTOMATIC1111.
    vectors = draw(3, 6)
    torch.save({"string_to_token": {"*": 265}, "string_to_param": {"*": vectors}, "name": "webui", "step": 500,
                "sd_checkpoint": "ab12", "sd_checkpoint_name": "model"}, FOLDER / "webui.pt")  # fmt: skip
    keep("webui", vectors)
    vectors = draw(2, 6).half()
    save_file({"emb_params": vectors}, FOLDER / "bad-hands-5.safetensors")
    keep("bad-hands-5", vectors)
    # diffusers: one vector, or several.
    vector = draw(6)
    torch.save({"<cat-toy>": vector}, FOLDER / "learned_embeds.bin")
    keep("learned_embeds", vector)
    vectors = draw(2, 6)
    save_file({"<style>": vectors}, FOLDER / "style.safetensors")
    keep("style", vectors)
    # Two text encoders.
    pair = draw(2, 6), draw(2, 10)
    save_file({"clip_l": pair[0], "clip_g": pair[1]}, FOLDER / "pair.safetensors")
    keep("pair", *pair)
    # A list, as ComfyUI reads.
    listed = draw(6), draw(2, 6)
    torch.save([{"a": listed[0]}, {"b": listed[1]}], FOLDER / "listed.pt")
    keep("listed", torch.cat([listed[0][None], listed[1]]))
    # What is none.
    save_file({"layer.weight": draw(4, 3, 2)}, FOLDER / "weights.safetensors")
    (FOLDER / "notes.txt").write_text("no embedding\n")
    save_file(values, FOLDER / "values.golden")
    print(f"{sum(file.stat().st_size for file in FOLDER.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
