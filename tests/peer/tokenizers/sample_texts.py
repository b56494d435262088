"""Texts that are hard to tokenise, drawn with a seed."""

import random

WORDS = """the of and to in a is that for it as was with be by on not he I this are or his from at which but have an had
they you were their one all we can her has there been if more when will would who so no don't I'm we'll THEY'VE it's She'D
'tis y'all rock'n'roll naïve café Straße ŒUVRE İstanbul ſoft 'ſ K'ſ ǅ ﬁnal ①② ½ x² fullwidth Ｆｕｌｌ ｶﾞ ㍿ ﷺ Å Å Å
e\u0301 e\u0323\u0301 a\u0315\u0300\u05ae\u0300b \u1100\u1161\u11a8 가\u11a7 각 \uac00\u11a8 q\u0307\u0323 ڃ ֑ क़ ড় שּׁ \u0958
日本語 テスト 中文字符 漢字かな交じり文 한국어 텍스트 русский ЯЗЫК Ελληνικά ΣΊΣΥΦΟΣ עברית العربية فارسی हिन्दी ไทย ქართული
👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪🇫🇷 ☃️ 🙂🙃 🤷🏾‍♀️ e.g. i.e. 3.14159 1,000,000 12345678 ١٢٣ ४५६ Ⅷ 0x7fff 1e-9 10%
foo_bar camelCase __init__ std::vector<int> a->b (*p)++ "quoted" `code` {json:[1,2]} <tag/> &amp; #include <s> </s> <unk>
▁ ▁▁under ▁the Ġthe Ċ <0x41> <0x0A> <0xE2> �""".split()
SPACES = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2028", "\u200b", "\u0085",
          "\u180e", "\x0b", "\x0c", "\x1c", ""]
BLOCKS = [(0, 0x7F), (0x80, 0x24F), (0x250, 0x52F), (0x530, 0x8FF), (0x900, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x13FF),
          (0x1400, 0x1FFF), (0x2000, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xABFF),
          (0xAC00, 0xD7FF), (0xE000, 0xFAFF), (0xFB00, 0xFFFF), (0x10000, 0x11FFF), (0x12000, 0x1CFFF), (0x1D000, 0x1EFFF),
          (0x1F000, 0x1FAFF), (0x20000, 0x3FFFF), (0xE0000, 0x10FFFF)]
CODE = """def f(x: int) -> str:\n    return {"a": x}[0]  # done\n\n\nif __name__ == "__main__":\n\tmain()\r\n
for (size_t i = 0; i < n; ++i) { sum += a[i] * b[i]; }\n    template <class T>\n    using Ptr = std::shared_ptr<const T>;
SELECT * FROM t WHERE x >= 10 AND y != 'it''s';\n\n\n\n        deep indentation\n  - item: [1, 2, 3]\n""".split(" ")


class Texts:
    def __init__(self, seed: int, special: list[str] = ()):  # special: tokens to write into texts
        self.random = random.Random(seed)
        self.special = list(special)

    def character(self) -> str:
        first, last = self.random.choice(BLOCKS)
        point = self.random.randint(first, last)
        return chr(point) if not 0xD800 <= point <= 0xDFFF else "\ufffd"

    def part(self) -> str:
        kind = self.random.random()
        if kind < 0.45:
            return self.random.choice(WORDS)
        if kind < 0.55:
            return self.random.choice(CODE) + self.random.choice(SPACES)
        if kind < 0.65:
            return "".join(self.character() for _ in range(self.random.randint(1, 6)))
        if kind < 0.7:
            block = self.random.choice(BLOCKS)
            points = (self.random.randint(*block) for _ in range(self.random.randint(1, 8)))
            return "".join(chr(p) for p in points if not 0xD800 <= p <= 0xDFFF)
        if kind < 0.75:
            return "".join(self.random.choice("0123456789") for _ in range(self.random.randint(1, 9)))
        if kind < 0.8:
            return "".join(self.random.choice("abcdefghijklmnopqrstuvwxyzABC") for _ in range(self.random.randint(1, 14)))
        if kind < 0.84:
            return "".join(self.random.choice(".,;:!?-'\"()[]{}<>/\\|@#$%^&*_+=~`") for _ in range(self.random.randint(1, 5)))
        if kind < 0.88:
            return "".join(self.random.choice(SPACES) for _ in range(self.random.randint(1, 5)))
        if kind < 0.9:
            return self.random.choice(["a", "ab", "é", "字", " ", "\n", "'s", "!", "0", "🙂"]) * self.random.randint(2, 60)
        if self.special and kind < 0.97:
            token = self.random.choice(self.special)
            return token if self.random.random() < 0.8 else token[: self.random.randint(0, len(token))]
        return self.random.choice(WORDS).upper()

    def text(self) -> str:
        parts = []
        for _ in range(self.random.choice([0, 1, 1, 2, 3, 5, 8, 13])):
            parts.append(self.part())
            parts.append(self.random.choice(SPACES))
        return "".join(parts if self.random.random() < 0.5 else parts[:-1])

    def texts(self, count: int) -> list[str]:
        return [self.text() for _ in range(count)]

    def long_texts(self) -> list[str]:
        """Single words far longer than any token."""
        return ["a" * 100_000, "ab" * 20_000, "字" * 10_000, " " * 30_000, "\n " * 5_000, "!" * 10_000, "é" * 5_000,
                "7" * 10_000, "".join(self.character() for _ in range(20_000)), "🙂" * 3_000, ("x" * 997 + " ") * 20]

    def id_lists(self, count: int, vocabulary: int) -> list[list[int]]:
        return [[self.random.randrange(vocabulary + 3) for _ in range(self.random.randint(0, 12))] for _ in range(count)]
