"""The tokenizer: a Unigram vocabulary written by hand, with byte fallback, so that no prompt is unreadable.

Words of the training captions are whole pieces; other words fall apart into short pieces, letters and, for
other scripts, bytes. A trained Unigram model split even "red" into two pieces on so small a language.
"""

import collections
import json
import math
import re
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import data

SPACE = "\u2581"
# Emoji have many names, each of which comes up seldom.
SIZE, CAPTIONS, SEEN = (2048, 60000, 10) if data.EMOJI else (576, 30000, 25)
MAX_LENGTH = 512
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'\"-:;()"
# Frequent English syllables: what the words outside the captions are built from.
PIECES = ("th he an in er on re ed nd ha en es of or nt ea ti to it st io le is ou ar as de rt ve ing ion ent ter "
          "ght own ack ight low ound all ell ish ly ness ful").split()


def captions(count: int = CAPTIONS) -> list[str]:
    """Captions of all kinds, with fillers, as word statistics."""
    sampler = data.Sampler(3)
    draw = [lambda: sampler.image().caption, lambda: sampler.clip().caption, lambda: sampler.edit().caption,
            lambda: sampler.image().caption, sampler.filler]
    return [draw[i % len(draw)]() for i in range(count)]


def build() -> Tokenizer:
    """The tokenizer, with ids `<pad>` 0, `</s>` 1, `<unk>` 2 and the 256 bytes from 3."""
    counts = collections.Counter(w for c in captions() for w in re.findall(r"[a-z0-9]+", c))
    words = {w: n for w, n in counts.items() if n >= SEEN}
    total = sum(counts.values())
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(f"<0x{i:02X}>", 0.0) for i in range(256)]
    vocabulary += [(SPACE + w, math.log(n / total)) for w, n in sorted(words.items())]
    vocabulary += [(p, -13.0) for p in PIECES] + [(c, -14.0) for c in CHARACTERS] + [(SPACE, -9.0)]
    if len(vocabulary) > SIZE:
        raise RuntimeError(f"Cannot build the tokenizer: {len(vocabulary)} pieces exceed the limit of {SIZE}")
    vocabulary += [(f"<extra_id_{i}>", -100.0) for i in range(len(vocabulary), SIZE)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence([
        decoders.ByteFallback(), decoders.Metaspace(replacement=SPACE, prepend_scheme="always")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<pad>", "</s>", "<unk>")])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path):
    """Writes `tokenizer.json` and its config. The class is the generic fast one: a T5 class would rebuild the
    tokenizer from its vocabulary and lose the normaliser and the byte fallback."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>",
              "unk_token": "<unk>", "model_max_length": MAX_LENGTH, "clean_up_tokenization_spaces": False,
              "padding_side": "right"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def pieces(folder: Path) -> list[str]:
    """The vocabulary of a saved tokenizer, by id."""
    return [p for p, _ in json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]]
