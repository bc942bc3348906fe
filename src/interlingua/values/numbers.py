"""Numbers in untrusted text."""


def natural(text: str | None, *, digits: int = 18) -> int | None:
    """Returns the number that a text of at most `digits` ASCII digits stands for; None for any other text.

    `int` alone raises on `²`, which is a digit, and on thousands of digits.
    """
    return int(text) if text is not None and len(text) <= digits and text.isascii() and text.isdecimal() else None
