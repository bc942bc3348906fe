"""The cache of answers: what it keeps, and when it lets go."""

from interlingua.tools.core.web_fetch import Cache


def cache(now, **limits):
    return Cache(seconds=10, size=len, clock=lambda: now[0], **limits)


def test_an_answer_is_kept_until_its_time_is_over():
    """
    Ten seconds, and no longer.
    """
    now = [0.0]
    kept = cache(now)
    kept.put("a", "x")
    now[0] = 9.9
    assert "x" == kept.get("a")
    now[0] = 10.0
    assert (None, 0) == (kept.get("a"), len(kept))


def test_the_least_used_goes_when_there_are_too_many():
    """
    What was read stays longer than what was not.
    """
    kept = cache([0.0], max_entries=2)
    kept.put("a", "1")
    kept.put("b", "2")
    kept.get("a")
    kept.put("c", "3")
    assert ("1", None, "3") == (kept.get("a"), kept.get("b"), kept.get("c"))


def test_the_sizes_together_are_bounded():
    """
    Large answers push others out; one that is too large is not kept; a new one in the same place replaces the old.
    """
    kept = cache([0.0], max_bytes=100)
    for name in "abcde":
        kept.put(name, "x" * 25)
    kept.put("e", "y" * 25)
    kept.put("f", "z" * 26)
    assert (4, None, "y" * 25, None) == (len(kept), kept.get("a"), kept.get("e"), kept.get("f"))
