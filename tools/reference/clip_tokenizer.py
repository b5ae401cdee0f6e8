"""A small CLIP tokenizer with the structure of the published ones, and the ids that `transformers` gives.

    python3 tools/reference/clip_tokenizer.py

Writes tests/goldens/tokenizers/clip (vocab.json, merges.txt, tokenizer_config.json, tokenizer.json, ids.json). Ids and
merges: characters of bytes, the same at the end of a word, merges trained on sentences made up in unigram.py, then the
two special tokens. `clip_ids.json` beside the folder has the ids of CLIP's own merges, models/tokenizers/clip/merges.txt.
"""

import json
import pathlib
import shutil
import tempfile

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

import common
from unigram import OUT, corpus, texts, write_json

BOS, EOS = "<|startoftext|>", "<|endoftext|>"
SUFFIX = "</w>"
TEXTS = [
    "", " ", "A photo", "don't DON'T we'Re I'LL 's 'S", "3.14 1234567890 ٣٤٥ ½ Ⅷ", "x1y22z333", "a\n\n b\t\tc  ", "ÀÉÎ e\u0301 ΑΣ ß İ",
    "?!... (a)#b_c--d", "一只红色的猫, 한국어", "👍🏽 🏳️‍🌈", f"a {EOS} b", f"{BOS}hi{EOS}", "<|EndOfText|>", "\u00a0nbsp\u2028x", "the theatre there",
]  # fmt: skip


def train(size):
    """Merges of words that end with the suffix."""
    reference = CLIPTokenizer()
    tokenizer = tokenizers.Tokenizer(models.BPE(end_of_word_suffix=SUFFIX))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = reference.backend_tokenizer.pre_tokenizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, end_of_word_suffix=SUFFIX, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(6, 2000), trainer)
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def build(folder, size=420):
    """Writes the files as FLUX.1 has them: no tokenizer.json."""
    merges = train(size)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(letter + SUFFIX for letter in alphabet)]
    pieces += [piece for piece in dict.fromkeys("".join(pair) for pair in merges) if piece not in set(pieces)]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, BOS, EOS])}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "vocab.json", vocabulary)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    token = {"lstrip": False, "normalized": True, "rstrip": False, "single_word": False, "special": True}
    config = {
        "added_tokens_decoder": {str(vocabulary[BOS]): {"content": BOS, **token},
                                 str(vocabulary[EOS]): {"content": EOS, **token, "normalized": False}},
        "bos_token": BOS, "eos_token": EOS, "pad_token": EOS, "unk_token": EOS, "do_lower_case": True,
        "model_max_length": 77, "tokenizer_class": "CLIPTokenizer",
    }  # fmt: skip
    write_json(folder / "tokenizer_config.json", config)
    return CLIPTokenizer.from_pretrained(folder)


def published_tokenizer():
    """transformers' tokenizer of CLIP's merges."""
    merges = (common.ROOT / "models/tokenizers/clip/merges.txt").read_text().splitlines()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(letter + SUFFIX for letter in alphabet), *("".join(pair.split()) for pair in merges), BOS, EOS]
    assert len(set(pieces)) == 49408
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        return CLIPTokenizer.from_pretrained(folder)


def main():
    folder = OUT / "clip"
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = build(folder)
    write_json(folder / "tokenizer.json", json.loads(tokenizer.backend_tokenizer.to_str()))
    samples = list(dict.fromkeys([*TEXTS, *texts()[:110]]))
    ids = [[text, tokenizer(text).input_ids] for text in samples]
    write_json(folder / "ids.json", ids)
    published = published_tokenizer()
    assert published("a photo of a cat").input_ids == [49406, 320, 1125, 539, 320, 2368, 49407]
    write_json(OUT / "clip_ids.json", [[text, published(text).input_ids] for text in samples])


if __name__ == "__main__":
    main()
