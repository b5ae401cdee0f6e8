"""Makes tests/goldens/stable_diffusion/prompts: pictures of weighted and long prompts, and of textual inversions.

    python3 tools/reference/sd_prompts.py            # make
    python3 tools/reference/sd_prompts.py --check    # read the stored ones back and run them again

The models are those of the goldens `pipeline` and `xl_pipeline`. Prompts become states by prompt_weights.py, and diffusers
draws with these states. `embeddings` holds the textual inversions.
"""

import pathlib
import tempfile

import torch
from safetensors.torch import save_file
from diffusers import StableDiffusionPipeline, StableDiffusionXLPipeline

import common
from common import generator, make_goldens, normal
from prompt_weights import pieces_a1111, pieces_comfyui, texts_of
from stable_diffusion import GOLDENS as MODELS
from stable_diffusion import picture_call, pipelines, sd_parts, sdxl_parts

FOLDER = common.GOLDENS.parent / "stable_diffusion"
LONG = "a bright red cat sleeps under the ancient mountain, cinematic light in the morning, " * 4


def learnt(seed):
    """Vectors of 32 numbers, and of 32 and 40."""
    rng = generator(seed)
    return {"style": {32: normal(rng, 2, 32)}, "pair": {32: normal(rng, 2, 32), 40: normal(rng, 3, 40)}}


def texts(syntax, prompt, tokenizer, vectors):
    """Texts of a prompt; names of embeddings are words that the tokenizer is given for a while."""
    pieces = {"a1111": pieces_a1111, "comfyui": pieces_comfyui}.get(syntax, lambda text: [[text, 1.0]])(prompt)
    words = {f"embedding:{name}": f"learnt{i}x" for i, name in enumerate(vectors)}
    first = len(tokenizer)
    ids, next_id = {}, first
    for (word, token), name in zip(words.items(), vectors):
        ids[token] = list(range(next_id, next_id + len(vectors[name])))
        next_id += len(vectors[name])

    class WithWords:
        """Encodes learnt words as all of their ids."""

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def __call__(self, text, add_special_tokens=True):
            for word, token in words.items():
                text = text.replace(word, f"\0{token}\0")
            parts = text.split("\0")
            found = [i for part in parts for i in (ids.get(part) or tokenizer(part, add_special_tokens=False).input_ids)]
            return type("Encoded", (), {"input_ids": found})

    return texts_of(syntax, [piece for piece in pieces if piece == "break" or piece[0]], WithWords())


def encode(encoder, tokenizer, syntax, prompts, vectors, final_norm):
    """States of prompts, [1, tokens, width] each, and the projected vectors of their first texts where there are any."""
    width = encoder.config.hidden_size
    rows = {name: own[width] for name, own in vectors.items() if width in own}
    table = encoder.get_input_embeddings()
    original = table.weight.data
    table.weight.data = torch.cat([original, *rows.values()])
    blank = texts_of("plain", [], tokenizer)
    chunked = [texts(syntax, prompt, tokenizer, rows) for prompt in prompts]
    count = max(len(own) for own in chunked)
    states, pooled = [], []
    run = lambda ids: encoder(input_ids=torch.tensor(ids), output_hidden_states=True)
    pick = lambda out: out.last_hidden_state if final_norm else out.hidden_states[-2]
    for own in chunked:
        all_texts = own + blank * (count - len(own))
        out = run([text["ids"] for text in all_texts])
        plain = pick(out)
        weights = torch.tensor([text["weights"] for text in all_texts])[..., None]
        if syntax == "a1111":
            scaled = plain * weights
            plain = scaled * (plain.double().mean((1, 2), True) / scaled.double().mean((1, 2), True)).float()
        if syntax == "comfyui":
            empty = pick(run([blank[0]["ids"]]))
            plain = empty + (plain - empty) * weights
        states.append(plain.reshape(1, -1, width))
        pooled.append(vector_of(encoder, out, own[0]["ids"], tokenizer.eos_token_id))
    table.weight.data = original
    return states, pooled


def vector_of(encoder, out, ids, end):
    """The projected state of the first end token; transformers would take the highest id, which learnt words have."""
    if not hasattr(encoder, "text_projection"):
        return None
    last = encoder.text_model.final_layer_norm(out.hidden_states[-1])
    return encoder.text_projection(last[:1, ids.index(end)])


def sd_call(pipeline, vectors, name, syntax, prompt, negative, seed):
    states, _ = encode(pipeline.text_encoder, pipeline.tokenizer, syntax, [prompt, negative], vectors, True)
    return told(picture_call(pipeline, name, seed, prompt_embeds=states[0], negative_prompt_embeds=states[1], **SETTINGS),
                "pipeline", syntax, prompt, negative)  # fmt: skip


def xl_call(pipeline, vectors, name, syntax, prompt, negative, seed):
    first, _ = encode(pipeline.text_encoder, pipeline.tokenizer, syntax, [prompt, negative], vectors, False)
    second, pooled = encode(pipeline.text_encoder_2, pipeline.tokenizer_2, syntax, [prompt, negative], vectors, False)
    states = [torch.cat(pair, -1) for pair in zip(first, second)]
    call = picture_call(pipeline, name, seed, prompt_embeds=states[0], negative_prompt_embeds=states[1],
                        pooled_prompt_embeds=pooled[0], negative_pooled_prompt_embeds=pooled[1], **SETTINGS)  # fmt: skip
    return told(call, "xl_pipeline", syntax, prompt, negative)


def told(call, model, syntax, prompt, negative):
    call.args = {key: value for key, value in call.args.items() if not isinstance(value, torch.Tensor)}
    call.args |= {"model": model, "prompt_syntax": syntax, "prompt": prompt, "negative_prompt": negative}
    return call


SETTINGS = dict(height=24, width=40, guidance_scale=4.0, num_inference_steps=3)


def build(folder, seed):
    vectors = learnt(seed)
    (folder / "embeddings").mkdir()
    torch.save({"string_to_param": {"*": vectors["style"][32]}, "name": "style"}, folder / "embeddings/style.pt")
    save_file({"clip_l": vectors["pair"][32], "clip_g": vectors["pair"][40]}, folder / "embeddings/pair.safetensors")


def calls(_folder, seed):
    vectors = learnt(seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        [sd] = pipelines([StableDiffusionPipeline], sd_parts(folder / "sd", MODELS["pipeline"][1]))
        [xl] = pipelines([StableDiffusionXLPipeline], sdxl_parts(folder / "xl", MODELS["xl_pipeline"][1]))
    weighted = "a (bright red:1.4) cat, [blue] light BREAK under the ((ancient)) mountain"
    return [
        sd_call(sd, vectors, "a1111", "a1111", weighted, "(dark:1.3) (night)", 21),
        sd_call(sd, vectors, "comfyui", "comfyui", "a (bright (red:0.6):1.4) cat in the morning", "dark (night)", 22),
        sd_call(sd, vectors, "long", "plain", LONG, "dark", 23),
        sd_call(sd, vectors, "learnt", "comfyui", "a (embedding:style:1.2) cat", "embedding:pair, dark", 24),
        xl_call(xl, vectors, "xl_a1111", "a1111", weighted, "(dark:1.3) " + LONG, 25),
        xl_call(xl, vectors, "xl_learnt", "plain", "a embedding:pair cat", "dark", 26),
    ]


GOLDENS = {"prompts": ("prompts of Stable Diffusion", 83, build, calls)}


if __name__ == "__main__":
    make_goldens(FOLDER, GOLDENS)
