"""Makes tests/goldens/prompt_weights: weighted prompts as ids and weights, and what weights do to states.

    python3 tools/reference/prompt_weights.py            # make
    python3 tools/reference/prompt_weights.py --check    # read the stored states back and compute them again

No library has these rules: they are those of AUTOMATIC1111's web UI and of ComfyUI, written down here a second time and
in another way than in the program. `chunks.json` has prompts by syntax with their pieces and texts of 77 places; ids are
those of tests/goldens/tokenizers/clip. The states are those of a tower with 13 places.
"""

import json
import re
import sys

import torch
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer

import common
from clip_text import BOS, EOS, NARROW, PLACES
from common import Call, exact, fresh_folder, generator, make_goldens
from seeded import seed_weights
from unigram import OUT, write_json

FOLDER = common.GOLDENS.parent / "prompt_weights"
ROOM = 75

LIST = ("a red fox in the deep snow, morning light, " * 9).strip()
PROMPTS = {
    "a1111": [
        "a (red:1.3) fox, [blue] sky",
        "((a b:1.5) c) [d [e]] \\(f\\) (g",
        "one BREAK (two:0.5) BREAK three",
        LIST,
        f"({LIST}:1.2), the end",
        "the old house " * 40,
        "a fox, " + "the old house " * 22,
        "",
    ],
    "comfyui": [
        "a (red:1.3) fox, [blue] sky",
        "((a b:1.5) c) \\(f\\) (g",
        LIST,
        "the old house " * 23 + "(an ancient mountain:1.4) in the morning",
        "the old house " * 30 + "(cat)",
        "",
    ],
    "plain": [LIST, "a (red:1.3) fox BREAK b"],
}


def pieces_a1111(text):
    """Weights by a stack of factors: each closing bracket scales what came since its opening one."""
    done, stack, place = [], [], 0
    while place < len(text):
        rest = text[place:]
        number = re.match(r":\s*([+-]?[.\d]+)\s*\)", rest)
        in_round = any(sign == "(" for sign, _ in stack)
        in_square = any(sign == "[" for sign, _ in stack)

        def close(sign, factor):
            at = max(i for i, (each, _) in enumerate(stack) if each == sign)
            _, start = stack.pop(at)
            for entry in done[start:]:
                entry[1] *= factor

        if rest[0] == "\\":
            done.append([rest[1] if rest[1:2] in list("()[]\\") and len(rest) > 1 else "", 1.0])
            place += 2 if done[-1][0] else 1
            continue
        if rest[0] in "([":
            stack.append((rest[0], len(done)))
        elif number and in_round:
            close("(", float(number[1]))
            place += len(number[0])
            continue
        elif rest[0] == ")" and in_round:
            close("(", 1.1)
        elif rest[0] == "]" and in_square:
            close("[", 1 / 1.1)
        else:
            done.append([rest[0], 1.0])
        place += 1
    for sign, factor in (("(", 1.1), ("[", 1 / 1.1)):
        for at in [start for each, start in stack if each == sign]:
            for entry in done[at:]:
                entry[1] *= factor
    runs = []
    for letter, weight in done:
        if runs and abs(runs[-1][1] - weight) < 1e-12:
            runs[-1][0] += letter
        elif letter:
            runs.append([letter, weight])
    pieces = []
    for run, weight in runs:
        for i, part in enumerate(re.split(r"\s*\bBREAK\b\s*", run)):
            if i > 0:
                pieces.append("break")
            if part:
                pieces.append([part, weight])
    return pieces


def pieces_comfyui(text, weight=1.0):
    """The outermost groups by counting, then the same inside of each."""
    text = text.replace("\\)", "\0c").replace("\\(", "\0o")
    level, groups, current = 0, [], ""
    for letter in text:
        if letter == "(" and level == 0:
            groups.append(current)
            current = ""
        current += letter
        level += (letter == "(") - (letter == ")")
        if letter == ")" and level == 0:
            groups.append(current)
            current = ""
    pieces = []
    for group in filter(None, [*groups, current]):
        if len(group) >= 2 and group[0] == "(" and group[-1] == ")":
            inside, own = group[1:-1], weight * 1.1
            head, colon, tail = inside.rpartition(":")
            if colon and head:
                try:
                    inside, own = (head, float(tail))
                except ValueError:
                    pass
            pieces += pieces_comfyui(inside, own)
        else:
            pieces.append([group.replace("\0c", ")").replace("\0o", "("), weight])
    return pieces


def padded(tokenizer, content):
    """A text with begin, end and padding."""
    ids = [tokenizer.bos_token_id, *(i for i, _ in content), tokenizer.eos_token_id]
    weights = [1.0, *(w for _, w in content), 1.0]
    missing = ROOM + 2 - len(ids)
    return {"ids": ids + [tokenizer.pad_token_id] * missing, "weights": weights + [1.0] * missing}


def texts_of(syntax, pieces, tokenizer):
    encode = lambda text: tokenizer(text, add_special_tokens=False).input_ids
    comma = encode(",")[0]
    texts, text = [], []
    for piece in pieces:
        if piece == "break":
            texts.append(text)
            text = []
            continue
        tokens = [(i, piece[1]) for i in encode(piece[0])]
        if syntax == "comfyui":
            if len(tokens) < 8 and len(text) + len(tokens) > ROOM:
                texts.append(text)
                text = []
            while len(text) + len(tokens) > ROOM:
                room = ROOM - len(text)
                texts.append(text + tokens[:room])
                text, tokens = [], tokens[room:]
            text = text + tokens
            continue
        for token in tokens:
            if len(text) == ROOM:
                commas = [at for at, (i, _) in enumerate(text) if i == comma]
                near = syntax == "a1111" and token[0] != comma and commas and ROOM - commas[-1] <= 20
                cut = commas[-1] + 1 if near else ROOM
                texts.append(text[:cut])
                text = text[cut:]
            text.append(token)
    if text or not texts:
        texts.append(text)
    return [padded(tokenizer, text) for text in texts]


def write_chunks():
    tokenizer = CLIPTokenizer.from_pretrained(OUT / "clip")
    cases = []
    for syntax, prompts in PROMPTS.items():
        for prompt in prompts:
            plain = [[prompt, 1.0]] if prompt else []
            pieces = {"a1111": pieces_a1111, "comfyui": pieces_comfyui}.get(syntax, lambda _: plain)(prompt)
            cases.append({"syntax": syntax, "prompt": prompt, "pieces": pieces, "texts": texts_of(syntax, pieces, tokenizer)})
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_json(FOLDER / "chunks.json", cases)


def build(folder, seed):
    torch.manual_seed(0)
    model = CLIPTextModelWithProjection(CLIPTextConfig(**NARROW, attn_implementation="eager"))
    model.config.save_pretrained(folder)
    return seed_weights(folder, model, seed)


def calls(folder, seed):
    """Two prompts of two texts each."""
    model = build(folder, seed)
    rng = generator(seed + 1)
    ids = torch.randint(3, BOS, (4, PLACES), generator=rng)
    ids[:, 0] = BOS
    for row, end in enumerate((PLACES - 1, 4, 7, 1)):
        ids[row, end] = EOS
        ids[row, end + 1 :] = 0
    weights = torch.where(torch.rand(4, PLACES, generator=rng) < 0.5, 1.0, torch.rand(4, PLACES, generator=rng) * 2)
    weights[2, 2] = -0.5
    empty = torch.zeros(1, PLACES, dtype=torch.long)
    empty[0, :2] = torch.tensor([BOS, EOS])
    states = lambda texts: model(input_ids=texts, output_hidden_states=True)
    seen, blank = states(ids), states(empty).hidden_states[-2]
    plain = seen.hidden_states[-2]
    scaled = plain * weights[..., None]
    factor = plain.double().mean((1, 2)) / scaled.double().mean((1, 2))
    outputs = {
        "plain": plain,
        "a1111": (scaled.double() * factor[:, None, None]).float(),
        "comfyui": blank + (plain - blank) * weights[..., None],
        "pooled": seen.text_embeds[::2],
    }
    return [Call("prompts", "raw states before the last layer", {}, {"input_ids": ids.int(), "weights": weights}, outputs)]


GOLDENS = {"tower": ("two prompts of two texts", 1300, build, calls)}


if __name__ == "__main__":
    if "--check" not in sys.argv:
        fresh_folder(FOLDER)
        write_chunks()
    with exact():
        make_goldens(FOLDER, GOLDENS)
