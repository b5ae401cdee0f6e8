"""A small Unigram tokenizer with the structure of UMT5's: special ids 0 to 2, byte fallback,
Metaspace, and "</s>" after every prompt."""

import json
import math

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = (
    "a an the of on in at to and with left right above below middle top bottom corner photo image "
    "video drawing red green blue yellow purple orange black white gray pink brown circle square "
    "triangle star ring heart cross flower cat dog moves grows shrinks spins background high low "
    "quality blurry small large two three four"
).split()
PIECES = "ing ed er es ly tion st th sh ch ou ea oo ee ar or in on an re un".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'&-"
MARK = "\u2581"

CONFIG = {
    "backend": "tokenizers",
    "clean_up_tokenization_spaces": False,
    "eos_token": "</s>",
    "model_max_length": 512,
    "pad_token": "<pad>",
    "padding_side": "right",
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<unk>",
}


def vocabulary(size):
    entries = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    entries += [(f"<0x{byte:02X}>", 0.0) for byte in range(256)]
    entries += [(MARK + word, -3.0 - math.log(1 + rank)) for rank, word in enumerate(WORDS)]
    entries += [(piece, -6.0 - 0.05 * rank) for rank, piece in enumerate(PIECES)]
    entries.append((MARK, -7.0))
    entries += [(letter, -8.0 - 0.01 * rank) for rank, letter in enumerate(LETTERS)]
    seen = {piece for piece, _ in entries}
    assert len(seen) == len(entries), "pieces repeat"
    entries += [(f"<extra_id_{i}>", -100.0) for i in range(len(entries), size)]
    assert len(entries) == size, (len(entries), size)
    return entries


def build(folder, size):
    """Writes tokenizer.json and tokenizer_config.json."""
    tokenizer = Tokenizer(models.Unigram(vocabulary(size), unk_id=2, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Metaspace(replacement=MARK, prepend_scheme="always"),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
