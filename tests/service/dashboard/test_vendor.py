"""The files of others that pages load are those that the lock file names."""

import hashlib
import json

from digestif.service.dashboard.assets import FOLDER

VENDOR = FOLDER / "vendor"


def test_every_vendored_file_is_locked_with_its_hash_and_every_package_with_its_licence() -> None:
    packages = json.loads((VENDOR / "vendor.lock.json").read_bytes())["packages"]
    locked = {name: digest for package in packages for name, digest in package["sha256"].items()}
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.glob("*/*")
    }

    assert found == locked
    for package in packages:
        assert package.keys() == {"name", "version", "licence", "integrity", "sha256"}
        assert any(name.endswith("/LICENSE") for name in package["sha256"])


def test_the_versions_are_those_that_the_files_name() -> None:
    versions = {
        package["name"]: package["version"]
        for package in json.loads((VENDOR / "vendor.lock.json").read_bytes())["packages"]
    }

    assert f'version:"{versions["htmx.org"]}"' in (VENDOR / "htmx/htmx.min.js").read_text()
    assert f"(v{versions['uplot']})" in (VENDOR / "uplot/uPlot.iife.min.js").read_text()
