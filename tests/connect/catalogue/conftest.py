"""A home folder of its own for each test, and the price lists of the package, read once."""

from pathlib import Path

import pytest

from interlingua.connect import models as catalogue
from interlingua.connect import prices as pricesheet
from interlingua.connect.models import Catalogue
from interlingua.connect.prices import PriceSheet


@pytest.fixture(scope="session")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> PriceSheet:
    return pricesheet.load(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def known(sheet: PriceSheet) -> Catalogue:
    return Catalogue(sheet)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    catalogue.reload()
    return tmp_path
