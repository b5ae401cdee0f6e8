"""Small tokenizers, Unigram in most, with the ids that SentencePiece and Hugging Face's `tokenizers` give.

Run: python3 tools/reference/unigram.py
Writes tests/goldens/tokenizers/. Models are trained on sentences made up here, in the shapes of T5's
and UMT5's files: the nmt_nfkc rules, T5 without and UMT5 with byte fallback.
"""

import base64
import json
import pathlib
import random
import shutil

import sentencepiece as spm
import tokenizers
from sentencepiece import sentencepiece_model_pb2 as pb

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "goldens" / "tokenizers"

WORDS = {
    "en": "a the red green blue bright dark cat dog horse woman man child city river mountain house "
    "walks runs sleeps shines under over near through rain snow light morning night photograph "
    "painting cinematic detailed quality camera slowly quickly beautiful ancient modern street",
    "de": "der die das ein große kleine schöne Straße Fluss Häuser läuft schläft über unter Licht "
    "Morgen Nacht Gemälde Mädchen Jünglinge Bücher hört süß",
    "fr": "le la un une grande petite forêt rivière château élève été où très beau lumière garçon "
    "marche dort près de l'homme d'été qu'il",
    "es": "el la un una niño señora montaña río ciudad brilla corre duerme cerca después mañana",
    "ru": "красный синий кот собака река город гора женщина мужчина идёт бежит спит свет ночь утро",
    "el": "το φως της νύχτας ένας άνθρωπος περπατά στην πόλη θάλασσα ουρανός",
    "tr": "kırmızı ışık güneş şehir çocuk yürüyor ağaç İstanbul ırmak",
    "vi": "một người phụ nữ đi bộ trong thành phố ánh sáng buổi sáng đẹp",
    "ar": "قطة حمراء تمشي في المدينة تحت ضوء القمر الجميل",
    "hi": "एक लाल बिल्ली शहर में चलती है सुंदर रोशनी",
    "ko": "빨간 고양이가 도시 를 걷는다 아름다운 빛 밤 아침",
}
CHINESE = (
    "一只红色的猫在城市里慢慢走着 阳光照在山上 色调艳丽 过曝 静态 细节模糊不清 字幕 风格 作品 画作 画面 静止 整体发灰 "
    "最差质量 低质量 残缺的 多余的手指 画得不好的手部 女孩 男孩 夜晚 河流 雪山 街道 电影感"
).split()
JAPANESE = "赤い猫が街を歩いている 朝の光 カメラ ゆっくり 美しい 山と川 夜空の星".split()

# Wan's usual negative prompt, of which every character matters to a user.
NEGATIVE = (
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，"
    "JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，"
    "手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走"
)

FIXED_TEXTS = [
    "", " ", "  ", "\n", "\t \n", "a", " a", "a ", "  a  b  ", "a\nb", "a\tb\r\nc", "▁", "▁▁a", "a▁b", "▁ ▁",
    "A red circle", "a cat, a dog; (both) [asleep] {now}!", "don't can't l'homme", "3.14159 1,000,000 50% $5",
    "UPPER lower MiXeD", "snake_case kebab-case CamelCase", "http://example.com/a?b=c&d=e#f", "user@example.com",
    NEGATIVE, "一只猫", "猫", "龘靐齉爩", "日本語のテキスト", "カタカナ ﾊﾝｶｸ", "한국어 문장", "가각", "ｆｕｌｌｗｉｄｔｈ　ＴＥＸＴ",
    "😀", "😀😃😄", "a😀b", "👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "☺️", "❤️‍🔥", "🧑🏾‍🚀 in space",
    "ﬁ ﬂ ﬀ ﬃ ﬄ", "½ ¼ ²³ ™ ℃ № ㎏ ①②③ Ⅷ", "ǅ ŉ ĳ", "e\u0301 é", "a\u0308\u0301", "Å Å", "ﷺ", "㍿ ㌔", "ｶﾞｷﾞ", "Ω Ω",
    "\u00a0", "a\u00a0b", "\u00a0\u200d", "a\u00a0\u200db", "x\u00a0\u0301y", "a\u200bb", "a\u200db", "a\u200cb", "\ufeffa",
    "a\ufeffb", "a\u2028b\u2029c", "a\u0085b", "a\u3000b", "\u2003a\u2003", "a\u00adb", "a\u2060b", "a\u180eb",
    "\x01", "a\x01b", "a\x00b", "\x7fa", "a\x1bb", "\x08", " \x01 ", "a \x01 b", "\x0b\x0c", "a\x1fb",
    "\ufffd", "a\ufffdb", "\ufffe\uffff", "\U0001f9ff", "\U000e0041", "\U0010fffd", "\ue000", "𝒜𝓃 𝕞𝕒𝕥𝕙", "𠮷野家", "𐍈",
    "</s>", "<pad>", "<unk>", "a</s>b", "a </s> b", "<extra_id_0>", "x <extra_id_0> y <extra_id_1>.", "<extra_id_0><extra_id_1>",
    "<extra_id_5", "<extra_id_99>", "<EXTRA_ID_0>", "</s></s>", "<s>", "<0x41>", "a <0x0A> b", "<0xZZ>", "＜pad＞", "< /s>",
    "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "გამარჯობა", "Բարեւ", "ᚠᛇᚻ", "ꙮ", "ਪੰਜਾਬੀ", "தமிழ்",
    "Привет, мир!", "Γειά σου Κόσμε", "ΣΊΣΥΦΟΣ", "İstanbul ISTANBUL ıi", "Straße STRASSE", "Tiếng Việt", "naïve façade coöperate",
    "a" * 50, "ab" * 40, "猫" * 30, " " * 20 + "x" + " " * 20, "!?" * 20, "😀" * 12, "z" * 200,
    "the the the the", "walks, walks. walks! walks?", "(((red)))", "red::1.3 [blue:green:0.5]", "<lora:style:0.8>", "\\(escaped\\)",
    "a b", "a b", "100 × 200 mm²", "5′ 10″", "“curly” ‘quotes’ — dashes – …", "naïve café", "x\u0327\u0301",
    "ÀÉÎÕÜ àéîõü", "ŁŃŹŻ łńźż", "ЁЙ ёй", "Ё й", "か\u3099 が", "ｋ\u0301", "ﾟ", "゛", "´ ¨ ¸", "‗ ‾ ﹍",
]


def sentence(rng, language):
    if language == "zh":
        return rng.choice(["，", "", "。"]).join(rng.choice(CHINESE) for _ in range(rng.randint(2, 8)))
    if language == "ja":
        return "、".join(rng.choice(JAPANESE) for _ in range(rng.randint(1, 4))) + "。"
    words = WORDS[language].split()
    text = " ".join(rng.choice(words) for _ in range(rng.randint(3, 12)))
    if rng.random() < 0.3:
        text = text[0].upper() + text[1:] + rng.choice([".", "!", "?", ", 4k", ": 1990"])
    return text


def corpus(seed, lines):
    rng = random.Random(seed)
    languages = list(WORDS) + ["zh", "zh", "ja", "en", "en", "en"]
    return [sentence(rng, rng.choice(languages)) for _ in range(lines)]


def texts():
    """Every fixed text, and mixtures of sentences and odd pieces."""
    rng = random.Random(11)
    pool = [t for t in FIXED_TEXTS if t and len(t) < 20]
    out = list(FIXED_TEXTS)
    languages = [*WORDS, "zh", "ja"]
    for i in range(160):
        parts = [sentence(rng, rng.choice(languages))]
        parts += [rng.choice(pool) for _ in range(rng.randint(0, 3))]
        rng.shuffle(parts)
        out.append(rng.choice([" ", "", ", ", "\n", "\u00a0", "  "]).join(parts))
    alphabet = "abc ABC  ▁é猫ｶﾞ\u00a0\u0301\u200d😀ﬁ\n\x01</s>①"
    for _ in range(60):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 24))))
    return list(dict.fromkeys(out))


def train(path, lines, **options):
    settings = dict(
        model_type="unigram", vocab_size=750, character_coverage=0.99, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        normalization_rule_name="nmt_nfkc", num_threads=1, minloglevel=2, shuffle_input_sentence=False,
    )  # fmt: skip
    settings.update(options)
    prefix = path.with_suffix("")
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(prefix), **settings
    )
    prefix.with_suffix(".vocab").unlink()
    # The trainer records where its files lay; ids do not depend on that.
    proto = pb.ModelProto.FromString(path.read_bytes())
    proto.trainer_spec.ClearField("model_prefix")
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    path.write_bytes(proto.SerializeToString())
    return spm.SentencePieceProcessor(model_file=str(path)), proto


def added(id, content, **flags):
    token = dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return {**token, **flags}


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
    ],
    "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
}


def tokenizer_json(proto, extra_ids, normalizer, pre_tokenizer, decoder, byte_fallback):
    vocab = [[p.piece, p.score] for p in proto.pieces]
    vocab += [[f"<extra_id_{i}>", 0.0] for i in range(extra_ids - 1, -1, -1)]
    names = ["<pad>", "</s>", "<unk>"] + [f"<extra_id_{i}>" for i in range(extra_ids)]
    index = {piece: i for i, (piece, _) in enumerate(vocab)}
    model = {"type": "Unigram", "unk_id": 2, "vocab": vocab}
    if byte_fallback is not None:
        model["byte_fallback"] = byte_fallback
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted((added(index[n], n) for n in names), key=lambda t: t["id"]),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": TEMPLATE,
        "decoder": decoder,
        "model": model,
    }


def precompiled(proto):
    blob = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return {"type": "Precompiled", "precompiled_charsmap": blob}


def write_json(path, data):
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")


DECODED = 60


def departures(model, samples):
    """Indices of texts that `tokenizers` rewrites otherwise than SentencePiece by the same rules.

    For a grapheme cluster of under 6 bytes it takes the shortest rule and drops the rest, where
    SentencePiece takes the longest rule at every position.
    """
    blob = pb.ModelProto.FromString(model.read_bytes()).normalizer_spec.precompiled_charsmap
    rust = tokenizers.normalizers.Precompiled(blob)
    reference = spm.SentencePieceNormalizer(
        model_file=str(model), add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
    )
    return [i for i, t in enumerate(samples) if rust.normalize_str(t) != reference.normalize(t)]


def compare(folder, samples):
    """Ids from both libraries where the folder has both files; the first texts also there and back."""
    result = {}
    model, file = folder / "spiece.model", folder / "tokenizer.json"
    if model.exists():
        processor = spm.SentencePieceProcessor(model_file=str(model))
        result["sentencepiece"] = [processor.encode(t) for t in samples]
        result["sentencepieceDecoded"] = [processor.decode(ids) for ids in result["sentencepiece"][:DECODED]]
    if file.exists():
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        if model.exists():
            result["departures"] = departures(model, samples)
        result["tokenizers"] = [tokenizer.encode(t).ids for t in samples]
        result["tokenizersDecoded"] = [tokenizer.decode(ids) for ids in result["tokenizers"][:DECODED]]
    write_json(folder / "ids.json", result)


def t5(samples):
    folder = OUT / "t5"
    folder.mkdir()
    _, proto = train(folder / "spiece.model", corpus(1, 6000))
    mark = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True, "prepend_scheme": "always"}
    sequence = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, mark]}
    data = tokenizer_json(proto, 10, precompiled(proto), sequence, mark, None)
    write_json(folder / "tokenizer.json", data)
    config = {
        "added_tokens_decoder": {
            str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in data["added_tokens"]
        },
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "extra_ids": 10,
        "model_max_length": 512,
        "tokenizer_class": "T5Tokenizer",
    }
    write_json(folder / "tokenizer_config.json", config)
    compare(folder, samples)


def umt5(samples):
    folder = OUT / "umt5"
    folder.mkdir()
    _, proto = train(
        folder / "spiece.model", corpus(2, 6000), vocab_size=950, byte_fallback=True, character_coverage=0.98
    )
    normalizer = {
        "type": "Sequence",
        "normalizers": [
            precompiled(proto),
            {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
        ],
    }
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    data = tokenizer_json(proto, 10, normalizer, mark, mark, True)
    write_json(folder / "tokenizer.json", data)
    compare(folder, samples)


def share_rules():
    """Stores the rules, which both models hold, once; `tests/support/tokenizer_goldens.ts` puts the files together again."""
    proto = pb.ModelProto.FromString((OUT / "t5" / "spiece.model").read_bytes())
    rules = proto.normalizer_spec.precompiled_charsmap
    (OUT / "nmt_nfkc.charsmap").write_bytes(rules)
    for name in ("t5", "umt5"):
        for file, part in (("spiece.model", rules), ("tokenizer.json", base64.b64encode(rules))):
            whole = (OUT / name / file).read_bytes()
            assert whole.count(part) == 1, (name, file)
            (OUT / name / file).write_bytes(whole.replace(part, b"@nmt_nfkc.charsmap@"))


def bundled(samples):
    folder = OUT / "bundled"
    folder.mkdir()
    source = ROOT / "models" / "bundled" / "tokenizer"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        write_json(folder / name, json.loads((source / name).read_text()))
    compare(folder, samples)


def variants(samples):
    """SentencePiece options one by one, with a few rewriting rules of our own instead of nmt_nfkc."""
    rules = OUT / "rules.tsv"
    lines = [("Ａ", "A"), ("ﬁ", "fi"), ("ﬁﬁ", "FIFI"), ("\u00a0", " "), ("x", ""), ("e\u0301", "é"), ("\t", " "), ("👍🏽", "👍")]
    rules.write_text("".join(f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n" for a, b in lines))
    options = {
        "plain": {},
        "no_dummy_prefix": {"add_dummy_prefix": False},
        "keep_spaces": {"remove_extra_whitespaces": False},
        "suffix": {"treat_whitespace_as_suffix": True},
        "identity": {"normalization_rule_name": "identity"},
        "symbols": {"user_defined_symbols": ["<sep>", "ﬁ", "xx", "猫 猫", "a▁"], "control_symbols": ["<ctl>"]},
        "bpe": {"model_type": "bpe"},
        # As Gemma's is.
        "bpe_bytes": {"model_type": "bpe", "vocab_size": 420, "byte_fallback": True, "normalization_rule_name": "identity",
                      "add_dummy_prefix": False, "remove_extra_whitespaces": False, "bos_id": 3, "pad_piece": "<pad>",
                      "eos_piece": "<eos>", "bos_piece": "<bos>", "user_defined_symbols": ["\n\n", "▁▁", "<start_of_turn>"]},
    }
    extra = ["<sep>", "a<sep>b", "<ctl>", "ﬁﬁﬁ", "axxb", "xx", "猫 猫", "ca at", "xAxAx", "👍🏽👍", "a \t b", "x x x", " x", "a  b   c", "a\n\n\nb", "<start_of_turn>user\na", "walking the streets"]
    samples = samples[:90] + extra
    data = {"texts": samples, "models": {}}
    rng = random.Random(3)
    latin = [sentence(rng, "en") for _ in range(800)]
    for name, option in options.items():
        path = OUT / "variants" / f"{name}.model"
        path.parent.mkdir(exist_ok=True)
        settings = {"vocab_size": 120, "character_coverage": 1.0, "normalization_rule_tsv": str(rules), **option}
        if "normalization_rule_name" in option:
            del settings["normalization_rule_tsv"]
        else:
            settings["normalization_rule_name"] = ""
        processor, _ = train(path, lines=latin, **settings)
        data["models"][name] = [processor.encode(t) for t in samples]
    write_json(OUT / "variants" / "ids.json", data)
    rules.unlink()


def stages():
    """Added tokens, prepend schemes and normalizers one by one, on a model of a few pieces."""
    pieces = ["<pad>", "</s>", "<unk>", "▁", "a", "b", "ab", "▁a", "▁ab", "s", "i", "ss", "é", "e", "σ", "x", "y", "▁x"]
    vocab = [[p, 0.0 if i < 3 else -1.0 - 0.25 * i] for i, p in enumerate(pieces)]
    special = [added(0, "<pad>"), added(1, "</s>"), added(2, "<unk>")]
    meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}

    def base(**parts):
        model = {"type": "Unigram", "unk_id": 2, "vocab": vocab, "byte_fallback": False}
        empty = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding"))
        return {"version": "1.0", "added_tokens": special, **empty, "model": model, **parts}

    def token(content, **flags):
        return {"added_tokens": [*special, added(18, content, **{"special": False, **flags})], "pre_tokenizer": meta}

    replace = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "$&▁"}
    cases = {
        "always": {"pre_tokenizer": meta},
        "first": {"pre_tokenizer": {**meta, "prepend_scheme": "first"}},
        "never": {"pre_tokenizer": {**meta, "prepend_scheme": "never"}},
        "old always": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}},
        "unsplit": {"pre_tokenizer": {**meta, "split": False}},
        "first after a split": {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "WhitespaceSplit"}, {**meta, "prepend_scheme": "first"}],
            }
        },
        "none": {},
        "plain token": token("ab"),
        "overlapping tokens": {
            "added_tokens": [*special, added(18, "abx"), added(19, "abxs"), added(20, "bxy")],
            "pre_tokenizer": meta,
        },
        "single word": token("ab", single_word=True),
        "lstrip": token("ab", lstrip=True),
        "rstrip": token("ab", rstrip=True),
        "both strips": token("ab", lstrip=True, rstrip=True),
        "normalized": {**token("AB", normalized=True), "normalizer": {"type": "Lowercase"}},
        "not normalized": {**token("AB", normalized=False), "normalizer": {"type": "Lowercase"}},
        "NFD": {"normalizer": {"type": "NFD"}},
        "NFC": {"normalizer": {"type": "NFC"}},
        "NFKD accents": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}]}},
        "NFKC lower": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}},
        "strip left": {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}},
        "strip right": {"normalizer": {"type": "Strip", "strip_left": False, "strip_right": True}},
        "replace regex": {"normalizer": replace},
        "replace string": {"normalizer": {**replace, "pattern": {"String": "a"}}},
        "prepend": {"normalizer": {"type": "Prepend", "prepend": "▁"}},
        "nmt": {"normalizer": {"type": "Nmt"}},
        "template": {"post_processor": TEMPLATE},
        "two ids around": {
            "post_processor": {
                **TEMPLATE,
                "single": [
                    {"SpecialToken": {"id": "[X]", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "</s>", "type_id": 0}},
                ],
                "special_tokens": {
                    "[X]": {"id": "[X]", "ids": [0, 2], "tokens": ["<pad>", "<unk>"]},
                    **TEMPLATE["special_tokens"],
                },
            }
        },
    }
    samples = [
        "", " ", "a", " a", "a ", "ab", "ab ab", "  ab  ", "xab", "abx", "x ab y", "x  ab  y", "x\tab\ny", "ab-ab", "_ab", "abab",
        "abxy", "aabxyb", "abxsabx", "abxssbxyabx", "AB", "Ab aB", "é", "e\u0301", "É", "ﬁ", "ß", "Σ ΑΣ", "ΑΣ", "▁a", "▁", "a▁b", "a\u0085b", "\ufeffa", "a\u00a0b",
        "\u2003ab\u2003", "a\x01b\x7f\u200b", "</s>ab", "ab</s> ab", "qqab", "zab9", "é ab", "ab́", "<unk> ab", "a  a", "\n", "İ", "ſs",
    ]  # fmt: skip
    out = []
    for name, parts in cases.items():
        data = base(**parts)
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(data))
        out.append({"name": name, "parts": parts, "ids": [tokenizer.encode(t).ids for t in samples]})
    shared = {k: v for k, v in base().items()}
    write_json(OUT / "stages.json", {"base": shared, "texts": samples, "cases": out})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    samples = texts()
    write_json(OUT / "texts.json", samples)
    t5(samples)
    umt5(samples)
    share_rules()
    bundled(samples)
    variants(samples)
    stages()
    size = sum(p.stat().st_size for p in OUT.rglob("*") if p.is_file())
    print(f"{len(samples)} texts, {size / 1e6:.2f} MB, tokenizers {tokenizers.__version__}, spm {spm.__version__}")


if __name__ == "__main__":
    main()
