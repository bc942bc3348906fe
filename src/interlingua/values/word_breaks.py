"""Word breaks for full-text search, in scripts that are written without spaces between words."""

import re
import unicodedata

# Thai, Lao, Burmese, Khmer, CJK and kana. SQLite's unicode61 tokenizer would index a sentence of these as one token
# (sqlite.org/fts5.html#unicode61_tokenizer), so each character is a token.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003347f]"
)


def spaced(text: str) -> str:
    """Returns the text as it is indexed: spaces around each character of a script without word spacing."""
    if text.isascii():
        return text
    return UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))
