"""Makes the goldens of the Gemma 3 text encoder under tests/goldens/gemma3, and of its tokenizer.

    python3 tools/reference/gemma3.py                 # make all
    python3 tools/reference/gemma3.py NAME ...        # make some
    python3 tools/reference/gemma3.py --check [NAME]  # read the stored ones back and run them again

`tokenizer` is tests/goldens/tokenizers/gemma: a small BPE tokenizer in the form of Gemma's, with byte fallback, and the ids that
Hugging Face's `tokenizers` gives.
"""

import json
import shutil
import sys

import tokenizers
import torch
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors, trainers
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3TextConfig, Gemma3TextModel, GemmaTokenizer

import common
from byte_pair import QWEN_TEXTS, fuzz
from common import Call, generator, make_goldens
from seeded import seed_weights
from unigram import OUT, corpus, texts, write_json

FOLDER = common.GOLDENS.parent / "gemma3"
VOCABULARY = 900

# Heads of the published model; the window is shorter than the longest text, and every second layer sees all.
TINY = dict(
    vocab_size=97, hidden_size=30, intermediate_size=42, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2,
    head_dim=256, sliding_window=8, query_pre_attn_scalar=144,
    layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
)
# A vision tower that nothing looks through.
VISION = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)


def text_encoder(folder, seed, config):
    """A whole model as it is published, but for the vision tower, which has no weights here."""
    model = Gemma3ForConditionalGeneration(
        Gemma3Config(text_config=Gemma3TextConfig(**config, attn_implementation="eager").to_dict(), vision_config=VISION,
                     attn_implementation="eager")
    )
    del model.model.vision_tower, model.model.multi_modal_projector, model.lm_head
    model.config.save_pretrained(folder)
    norms = {name: (0.0, 0.3) for name, p in model.named_parameters() if p.ndim == 1}
    return seed_weights(folder, model, seed, overrides=norms)


def states_call(model, name, lengths, tokens, seed):
    """All states of texts that are padded before their first token; those of the pads are cut off."""
    rng = generator(seed)
    ids = torch.randint(0, model.config.text_config.vocab_size, (len(lengths), tokens), generator=rng)
    mask = torch.zeros_like(ids)
    for i, length in enumerate(lengths):
        mask[i, tokens - length:] = 1
    states = model.model.language_model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    outputs, inputs = {}, {}
    for i, length in enumerate(lengths):
        inputs[f"ids{i}"] = ids[i, tokens - length:].int()
        outputs[f"states{i}"] = torch.stack(states)[:, i, tokens - length:]
    return Call(name, "all hidden states, layer by layer", {"lengths": list(lengths)}, inputs, outputs)


def tiny_calls(folder, seed):
    model = text_encoder(folder, seed, TINY)
    return [states_call(model, "one", [21], 21, seed + 1), states_call(model, "padded", [5, 17], 32, seed + 2)]


def build_tokenizer(folder, config=None):
    """Merges are trained on made-up sentences; the first ids are those of Gemma's special tokens."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    trained = tokenizers.Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trained.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    trainer = trainers.BpeTrainer(vocab_size=520, show_progress=False, limit_alphabet=120)
    # Pieces hold no spaces but before a word, as those of SentencePiece.
    lines = [word for line in corpus(4, 4000) for word in line.replace(" ", " \u2581").split(" ")]
    trained.train_from_iterator(lines, trainer)
    model = json.loads(trained.to_str())["model"]
    plain = ["\n\n", "\u2581\u2581", "\u2581\u2581\u2581", "<start_of_turn>"]
    pieces = [*special, *plain, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    while len(vocabulary) < VOCABULARY:
        vocabulary[f"<unused{len(vocabulary)}>"] = len(vocabulary)
    tokenizer = GemmaTokenizer(vocab=vocabulary, merges=[tuple(pair) for pair in model["merges"]], mask_token=None)
    tokenizer.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in plain])
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer.json", json.loads((folder / "tokenizer.json").read_text()))
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": True, "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>",
        "model_max_length": 1024, "padding_side": "left", "tokenizer_class": "GemmaTokenizerFast", **(config or {}),
    })
    return GemmaTokenizer.from_pretrained(folder)


def tokenizer():
    folder = OUT / "gemma"
    shutil.rmtree(folder, ignore_errors=True)
    build_tokenizer(folder)
    own = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    lines = list(dict.fromkeys([*texts()[:230], *QWEN_TEXTS, "\n\n\n", "a  b   c    d", "<bos>a<eos>", "<start_of_turn>user\nhi",
                                "\u2581x", "zz\u00e9\u4e00\U0001f600", *fuzz(7, 120)]))
    ids = [own.encode(text).ids for text in lines]
    decoded = [own.decode(each, skip_special_tokens=True) for each in ids]
    write_json(folder / "ids.json", {"texts": lines, "ids": ids, "decoded": decoded})


GOLDENS = {
    "tiny": ("Gemma 3 text encoder, tiny", 431, lambda folder, seed: text_encoder(folder, seed, TINY), tiny_calls),
}


if __name__ == "__main__":
    if "tokenizer" in sys.argv or len(sys.argv) == 1:
        tokenizer()
        sys.argv = [each for each in sys.argv if each != "tokenizer"] + [name for name in GOLDENS if len(sys.argv) == 1]
    if len(sys.argv) > 1:
        make_goldens(FOLDER, GOLDENS)
