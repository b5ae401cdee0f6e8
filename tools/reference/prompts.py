"""Golden prompts: what ftfy, html.unescape and the Wan pipeline's prompt_clean make of texts.

Run: python3 tools/reference/prompts.py
Writes tests/goldens/prompts/prompts.json.
"""

import html
import html.entities
import json
import pathlib
import random

import ftfy
from diffusers.pipelines.wan import pipeline_wan

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "goldens" / "prompts"

PLAIN = """A red circle on a white background.
It’s a “quoted” prompt — with dashes – and an ellipsis…
‘single’ ‚low‘ „German“ «French» »Danish« ‹x›
naïve café déjà vu, Zoë, coöperate, façade, jalapeño, Ångström
Straße, Größe, ÜBERGRÖSSE, Fußgängerübergänge; Œuvre, cœur, ŒUVRE
NESTLÉ® and CAFÉ™ ©2020, 25°C, ½ cup, 10³, µm, ±5, €20, £5, ¥100, ¢
À la carte. Ça va? È vero. Él está aquí. ¿Qué? ¡Olé!
Voilà: à, è, ù, ô, î; "À", 'É'. Á… É— Í– Ó’ Ú”
Ein schöner Tag im März. Äpfel, Öl, Übung. ÄÖÜ äöü ß
Português: não, ação, coração, MAÇÃ, NÃO, às, àquele, irmã
Română: Ășțîâ ĂÎÂȘȚ; Polski: zażółć gęślą jaźń ZAŻÓŁĆ
Česky: příliš žluťoučký kůň PŘÍLIŠ; Magyar: őű ŐŰ árvíztűrő
Türkçe: ığüşöç İĞÜŞÖÇ; Íslenska: þæðö ÞÆÐÖ; Føroyskt øæå ØÆÅ
Latviešu: āčēģīķļņšūž; Lietuvių: ąčęėįšųūž
Русский текст: кошка идёт по городу. РОССИЯ. Ёж! «цитата» — тире…
Українська: рік, її, ґанок, є. Рік. Її. Ще раз: Європа №5
Ελληνικά: καλημέρα κόσμε. ΑΘΗΝΑ. Ώρα; Έλα! «ναι»
עברית: שלום עולם. العربية: مرحبا بالعالم. فارسی: سلام
हिन्दी नमस्ते; ไทย สวัสดี; 한국어 안녕하세요; 日本語 こんにちは; 中文 你好，世界。
Tiếng Việt: một người phụ nữ đi bộ trong thành phố
😀 👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 emoji ❤️ ☺️ 1️⃣ 🇩🇪
(ノಠ益ಠ)ノ彡┻━┻ ¯\\_(ツ)_/¯ ( ͡° ͜ʖ ͡°) ʕ•ᴥ•ʔ ಠ_ಠ
math: a² + b² = c², √2 ≈ 1.41, x ≤ y ≥ z, ∞, π, Ω, ∑, ∂, ∫
boxes │ ┌─┐ ═ ║ ▀▄█ arrows → ← ↑ ↓ ✓ ✗ ★ ☆ • · † ‡ § ¶
a × b ÷ c; 5′ 10″; 100 % ‰; № 7; ™ ® ©; ¬ ¦ ¨ ¯ ´ ¸
d'œuvre, l’été, c’est, aujourd’hui, «été»""".split("\n")

SPECIAL = [
    "", " ", "\n", "\t a \t", "a\n\n b", "a\r\nb\rc", "a\u2028b\u2029c\x85d", "a\u00a0b", "a\u3000b\u2003c\u202fd",
    "a\x1cb\x1db\x1ec\x1fd", "\ufeffbom", "a\u200bb\u200cc\u200dd\u200ee", "a\x00b\x07c\x0bd\x0ce\x7ff", "\x1b[31mred\x1b[0m text",
    "\x1b[1;32mbold\x1b[mx\x1b[", "ﬁne ﬂow oﬀ aﬃx eﬄux ﬅ ﬆ", "Ĳssel ĳs ŉ Ǆ ǅ ǆ Ǉ ǈ ǉ Ǌ ǋ ǌ Ǳ ǲ ǳ", "ＬＯＵＤ　ＮＯＩＳＥＳ！", "ﾊﾝｶｸ ｶﾞｷﾞ ｶ ﾞ", "ￜﾡ￠￥",
    "e\u0301 a\u0308\u0301 Å Ω", "\u202aembed\u202c \u2060 \u206a\u206f \ufff9a\ufffab\ufffb \ufffc \ufffd", "한글 \u1112\u1161\u11ab", "\u1e9b\u0323 ℃ ㎏ ①",
    "<b>&amp;</b>", "&lt;b&gt; &amp;amp; &quot;x&quot; &#39;y&#39;", "&amp;lt;tag&amp;gt;", "&amp;amp;amp;lt;", "tom&jerry &copy &copycat &notit; &notin;",
    "&nbsp;a&nbsp;b", "&eacute;&EACUTE;&Eacute;&eACUTE; P&EACUTE;REZ BUNDESSTRA&SZLIG;E", "&hellip; &mdash; &ndash; &rsquo; &ldquo;x&rdquo;", "&#x1F600; &#128512; &#x1f600", "&#0; &#x80; &#150; &#x9f; &#1; &#xFFFE; &#xD800; &#x110000; &#99999999999; &#13; &#10; &#127; &#11;",
    "&#x; &#; & &; &&amp; &a;", "&NotEqualTilde; &bne; &fjlig; &Jscr;ohn &HilbertSpace;", "&CounterClockwiseContourIntegral; &CounterClockwiseContourIntegralX",
    "&ampx &ltx &gtx &quotx &Ampx &AMPx &LT;&GT &QUOT; &REG; &COPY &TRADE;", "AT&T R&D B&W;", "a&b=c&d=e&lt=f", "&hearts;&spades; &alpha;&Alpha;&ALPHA;", "&frac12;&sup2;&times;&divide;&deg;",
    "if a < b &amp; c", "x &amp; y\n< &amp; z\n&amp; w", "&#38;lt; &amp;#39; &#38;#38;#38;", "&thinsp;&ensp;&emsp;x&zwj;&zwnj;y&shy;", "&apos;&lsquo;&sbquo;&bdquo;", "&amp;eacute; &amp;#233; &amp;amp;eacute;",
    "&#59; &semi; &#x3b", "&ThickSpace;x", "&nosuch; &amp nosuch;", "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;", "&#xZZ; &#12a; &#x41g", "&\u00e9; &é",
    "(masterpiece:1.2), [blue|red] {a|b} <lora:x:0.8> &amp;", "50% off & more; 3 < 4 > 2", "\\u00e9 \\n %20 +", "a  b   c\t\td \n e",
    "Â", "Ã", "Â text", "Ã text", "caf Ã", "Ãƒ", "ÃÃÃ", "â", "â€", "â€ x", "Ð", "ÐÐ", "×", "Ø Ù", "ï¿½", "ï»¿text", "\x80\x93 c1 \x99", "it\x92s \x93quoted\x94 \x96 \x85", "\x85next",
    "voilÃ le travail", "Ã la mode", "vou Ã quele lugar", "Ã s vezes", "dÃ©jÃ  vu", "Ã  la carte, Ã©tÃ©", "Â Â nbsp", "Â©2020 Â® 25Â°C Â½ Â£5 Â¥ Â¿QuÃ©? Â¡OlÃ©!",
    "â€œlike thisâ€�", "donâ€™t â€œquoteâ€ \x9d", "â€¦ and â€” dash â€“", "â€™", "ÃƒÂ©", "ÃƒÆ’Ã‚Â©", "Ã¢â‚¬â„¢", "ÃƒÂ¢Ã¢â€šÂ¬Ã¢â€žÂ¢", "cafÃ© and café", "It’s cafÃ©", "naïve cafÃ© 中文", "中文 donâ€™t", "ä½ å¥½ and 你好",
    "РџСЂРёРІРµС‚, РјРёСЂ!", "вЂњС†РёС‚Р°С‚Р°вЂќ вЂ” С‚РёСЂРµ", "Р±РµР· РїСЂРѕР±РµР»РѕРІ", "donвЂ™t", "Ă©tĂ© Ă la", "Ĺ‘rĂĽlt", "Î³ÎµÎ¹Î¬", "Γ©tΓ©", "donβ€™t", "donā€™t", "‚Äúquote‚Äù don‚Äôt √©t√© ni√±o", "schÃ¶n Ã¼ber StraÃŸe Ã„pfel Ã–l Ãœbung", "ã\x81\x93ã\x82\x93", "æ—¥æœ¬èªž", "ì•ˆë…•", "ðŸ˜€ smile", "ðŸ‘©\u200dðŸ‘©", "ÐŸÑ€Ð¸Ð²ÐµÑ‚", "Ø§Ù„Ø³Ù„Ø§Ù…", "×©×œ×•×", "à¸ªà¸§à¸±à¸ªà¸”à¸µ", "Î‘Î¸Î®Î½Î±",
    "mixed ðŸ˜€ and 😀", "line one cafÃ©\nline two café\nÃ©", "SÃ£o Paulo, MÃ¼nchen, MalmÃ¶, ZÃ¼rich, KrakÃ³w", "Åukasz Å»aba Å‚Ã³dÅº", "TÃ¼rkÃ§e Ä±ÄŸÃ¼ÅŸ", "Äesky pÅ™Ã­liÅ¡", "Tiáº¿ng Viá»‡t", "20â‚¬, â„¢, âœ” done", "AÃ±o NiÃ‘o ESPAÃ‘A", "â†’ arrow â˜… star â€¢ bullet", "Ã—2 Ã·3", "l\u2019Ã©tÃ©", "\u201cÃ©\u201d",
]


def misread(text, charset):
    return text.encode("utf-8").decode(charset, errors="strict")


def generated():
    """Plain texts misread in the common ways, once and twice."""
    out = []
    for charset in ("latin-1", "sloppy-windows-1252", "sloppy-windows-1251", "sloppy-windows-1250", "macroman"):
        for text in PLAIN:
            if charset == "sloppy-windows-1252" or not text.isascii():
                out.append(misread(text, charset))
    rng = random.Random(4)
    for text in rng.sample(PLAIN, 10):
        twice = misread(misread(text, "sloppy-windows-1252"), "sloppy-windows-1252")
        out.append(twice)
        out.append(misread(text, "windows-1252") if is_clean(text) else twice)
        out.append(html.escape(text) + " & " + html.escape(html.escape(text)))
    words = [w for t in PLAIN for w in t.split() if not w.isascii()]
    for word in words:
        out.append(misread(word, "sloppy-windows-1252"))
    return out


def references():
    """Every name of HTML, alone, cut short, with something behind it and in capitals."""
    rng = random.Random(6)
    names = sorted(html.entities.html5)
    forms = [lambda n: n, lambda n: n.rstrip(";"), lambda n: n.rstrip(";")[:-1], lambda n: n.rstrip(";") + "x;", str.upper]
    texts = []
    for i in range(0, len(names), 45):
        texts.append(" ".join("&" + rng.choice(forms)(n) for n in names[i : i + 45]))
    for _ in range(30):
        numbers = [rng.choice([rng.randrange(0x3000), rng.randrange(0x120000), rng.randrange(0x80, 0xA0)]) for _ in range(12)]
        texts.append("".join(rng.choice([f"&#{n};", f"&#x{n:x};", f"&#X{n:X}", f"&#{n} "]) for n in numbers))
    return [{"text": t, "unescaped": html.unescape(t)} for t in texts]


def is_clean(text):
    try:
        text.encode("utf-8").decode("windows-1252")
        return True
    except UnicodeDecodeError:
        return False


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    texts = list(dict.fromkeys(PLAIN + SPECIAL + generated()))
    assert pipeline_wan.is_ftfy_available()
    cases = [
        {"text": t, "fixed": ftfy.fix_text(t), "unescaped": html.unescape(t), "clean": pipeline_wan.prompt_clean(t)}
        for t in texts
    ]
    data = {"generator": f"ftfy {ftfy.__version__}", "plain": len(PLAIN) + len(SPECIAL), "cases": cases}
    data["references"] = references()
    (OUT / "prompts.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(len(cases), "texts")


if __name__ == "__main__":
    main()
