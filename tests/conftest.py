"""How hypothesis searches: a fixed modest search by default, a longer random one when asked for.

HYPOTHESIS_PROFILE=search looks for new counterexamples; the default repeats the same search each time, so that a run
which passed will pass again.

No test sees the keys, the settings or the home folder of whoever runs it. None needs the authorities of the public web
either: one of them is trusted instead of some 140, which each client of a vendor's package reads anew (20 to 70 ms).
"""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import certifi
from hypothesis import HealthCheck, settings

# Whole conversations are large values: drawing one takes milliseconds, and some draws are thrown away as too large.
_LARGE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)

settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, max_examples=20, suppress_health_check=_LARGE
)
settings.register_profile("search", deadline=None, max_examples=100, suppress_health_check=_LARGE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_HOME = tempfile.mkdtemp(prefix="interlingua-tests-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ["INTERLINGUA_HOME"] = _HOME
for _name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL")) or "_PROXY" in name]:
    if not _name.startswith(("PIP_", "UV_", "NPM_", "PYTEST_")):
        del os.environ[_name]

_LAST_LINE = "-----END CERTIFICATE-----\n"
_AUTHORITY = Path(_HOME, "authority.pem")
_AUTHORITY.write_text(Path(certifi.where()).read_text().partition(_LAST_LINE)[0] + _LAST_LINE)
os.environ["SSL_CERT_FILE"] = str(_AUTHORITY)


def pytest_collection_finish() -> None:
    """Keeps the million values of modules and collected tests out of every later garbage collection (0.5 s each)."""
    gc.collect()
    gc.freeze()
