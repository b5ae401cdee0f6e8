"""Small byte-level BPE tokenizers with Qwen's settings, and the ids that Hugging Face's `tokenizers` gives.

    python3 tools/reference/byte_pair.py [--template FILE]

Writes tests/goldens/tokenizers/qwen2 (tokenizer.json, tokenizer_config.json, vocab.json, merges.txt, ids.json). With
the `chat_template` of a published Qwen3 tokenizer_config.json in FILE, also chat.json: what it makes of prompts.
The merges are trained on sentences made up in unigram.py.
"""

import argparse
import json
import random
import shutil

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer

from unigram import OUT, corpus, texts, write_json

# As Qwen3 declares them, in the order of their ids; the last four are not special.
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>"]
PLAIN = ["<tool_call>", "</tool_call>", "<think>", "</think>"]

# What Qwen3's chat template makes of messages of a user; chat.json checks it against the published one.
USER_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)

QWEN_TEXTS = [
    "don't DON'T Don'T we'Re I'LL they'Ve 'S 'ſ ’s", "it's'd'll 'x 's's", "3.14 1234567890 ٣٤٥ ½ Ⅷ ²³", "x1y22z333",
    "a\n\n\nb", "a \n b", " \n \n ", "a\r\nb\r\n\r\nc", "tabs\t\tand\tspaces  here   ", "   leading", "trailing   ", "    x",
    "end.\n\nnext", "?!\n", "(a)\n(b)", "\n\n", "\r\n", "a\u0085\u0085b", " \ufeff\ufeffx", "\u00a0\u00a0word", "\u2028\u2029 x",
    "\u3000全角\u3000スペース", "x\u200b\u200by", "e\u0301\u0301 u\u0308n\u0303", "한국어 각", "Å Ω ℃ ﬁ", "snake_case_name __init__",
    "#hash @at $1,000.00 100%", "🏳️‍🌈🏳️‍🌈 👩‍👩‍👧‍👦x 👍🏽", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "𠮷野家 𝒜𝓃", "\x00\x01\x1f\x7f",
    "<|im_start|>user\nhi<|im_end|>\n", "a<|im_end|>b", "<|endoftext|>", "<|im_start|><|im_start|>", "<|im_start", "<think>\n\n</think>\n\n",
    "<|IM_START|>", " <|im_end|> ", "<tool_call>{}</tool_call>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the theatre there then them",
]  # fmt: skip


def fuzz(seed, count):
    """Strings of characters that cut text, of whole words, and of any code points."""
    rng = random.Random(seed)
    marks = list("aZé猫あ한9٣½'’ \t\n\r._-!?(\u00a0\u0085\u200b\u200d\u0301😀🏽") + ["'s", "'LL", "  ", "\r\n", "<|im_end|>", "the", " red", "<think>"]
    for _ in range(count):
        if rng.random() < 0.7:
            yield "".join(rng.choice(marks) for _ in range(rng.randint(1, 24)))
        else:
            points = (rng.choice([0x80, 0x250, 0x3100, 0x10000, 0x20000]) for _ in range(rng.randint(1, 16)))
            yield "".join(chr(c) for c in (rng.randrange(p) for p in points) if not 0xD800 <= c < 0xE000)


def samples():
    return list(dict.fromkeys([*texts()[:230], *QWEN_TEXTS, *fuzz(5, 260)]))


def train():
    """Vocabulary and merges."""
    reference = Qwen2Tokenizer()
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = reference.backend_tokenizer.normalizer
    tokenizer.pre_tokenizer = reference.backend_tokenizer.pre_tokenizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(4, 4000), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def build(folder, vocab=None, merges=None):
    """Writes the files of a tokenizer with `tokenizer_class` Qwen2Tokenizer, trained if not given; returns it."""
    if vocab is None:
        vocab, merges = train()
    added = [AddedToken(t, special=True, normalized=False) for t in SPECIAL]
    added += [AddedToken(t, special=False, normalized=False) for t in PLAIN]
    tokenizer = Qwen2Tokenizer(
        vocab=vocab, merges=merges, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<|endoftext|>"
    )
    tokenizer.add_tokens(added)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    # Published files list their tokens here too.
    ids = {str(i): t for i, t in sorted(tokenizer.added_tokens_decoder.items())}
    config["added_tokens_decoder"] = {
        i: dict(content=t.content, lstrip=t.lstrip, normalized=t.normalized, rstrip=t.rstrip,
                single_word=t.single_word, special=t.special)
        for i, t in ids.items()
    }  # fmt: skip
    config["tokenizer_class"] = "Qwen2Tokenizer"
    write_json(folder / "tokenizer_config.json", config)
    write_json(folder / "tokenizer.json", json.loads((folder / "tokenizer.json").read_text()))
    write_json(folder / "vocab.json", vocab)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    return Qwen2Tokenizer.from_pretrained(folder)


def chat(tokenizer, template):
    """What the template makes of prompts, with and without a block of thought."""
    tokenizer.chat_template = template
    prompts = ["a red cat", "", " spaces \n", "一只红色的猫", "a <|im_end|> b", "<tool_response>x</tool_response>", "{{ x }} {% y %}"]
    cases = []
    for prompt in prompts:
        for thinking in (True, False):
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True, enable_thinking=thinking
            )
            cases.append({"prompt": prompt, "hasThinkBlock": not thinking, "text": text, "ids": tokenizer(text).input_ids})
    return cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--template")
    arguments = parser.parse_args()
    folder = OUT / "qwen2"
    kept = (folder / "chat.json").read_text() if (folder / "chat.json").exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = build(folder)
    lines = samples()
    ids = [tokenizer.encode(text) for text in lines]
    decoded = [tokenizer.decode(each, skip_special_tokens=True) for each in ids]
    write_json(folder / "ids.json", {"texts": lines, "ids": ids, "decoded": decoded})
    if arguments.template:
        kept = json.dumps(chat(tokenizer, open(arguments.template).read()), ensure_ascii=False) + "\n"
    if kept:
        (folder / "chat.json").write_text(kept)


if __name__ == "__main__":
    main()
