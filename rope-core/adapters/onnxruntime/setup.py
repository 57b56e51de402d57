"""Builds the library by cargo, as a plain shared library beside the package's Python files. Both adapters have this file.

The library has no Python ABI, so a wheel is for every Python 3. A source distribution has the crates of the repository
that the library depends on, in `crates`, and all others in `vendor`, so that it builds without a network.
`ROPE_LIBRARY` names a library that is built already; tests/release.sh cross-builds it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools_rust import Binding, RustExtension

HERE = pathlib.Path(__file__).resolve().parent
CARGO = tomllib.loads((HERE / "Cargo.toml").read_text())
LIBRARY = CARGO["lib"]["name"]
PACKAGE = next((HERE / "python").glob("*/__init__.py")).parent.name
NAMES = {"linux": "lib{}.so", "darwin": "lib{}.dylib", "win32": "{}.dll"}
BUILT = os.environ.get("ROPE_LIBRARY")
VENDORED = """[source.crates-io]
replace-with = "vendored"

[source.vendored]
directory = "vendor"
"""
# Where the crates are: in the repository, or in a source distribution.
CRATES = {"rope-core": "../..", "rope-core/models": "../../models"}


class BuildLibrary(build_ext):
    def run(self):
        if BUILT:
            library = pathlib.Path(self.get_ext_fullpath(f"{PACKAGE}.{LIBRARY}"))
            library.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(BUILT, library)
            return
        if shutil.which("cargo") is None:
            rust = CARGO["package"]["rust-version"]
            sys.exit(f"{PACKAGE} is built by cargo, which is not on PATH: install Rust {rust} or newer (rustup.rs)")
        super().run()

    def get_ext_filename(self, name):
        """A name without a tag of Python."""
        folder, _, library = name.rpartition(".")
        if BUILT:
            return os.path.join(*folder.split("."), os.path.basename(BUILT))
        return os.path.join(*folder.split("."), NAMES[sys.platform].format(library))


class WheelOfEveryPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class SourcesWithCrates(sdist):
    def run(self):
        super().run()
        if not (HERE / "crates").exists():
            shutil.rmtree(self.get_finalized_command("egg_info").egg_info)

    def make_release_tree(self, base, files):
        super().make_release_tree(base, files)
        base = pathlib.Path(base)
        in_repository = not (HERE / "crates").exists()
        root = HERE.parents[2] if in_repository else HERE / "crates"
        for crate in CRATES:
            # What a package of it has.
            patterns = tomllib.loads((root / crate / "Cargo.toml").read_text())["package"]["include"]
            for path in (path for pattern in ["/Cargo.toml", *patterns] for path in (root / crate).glob(pattern[1:])):
                target = base / "crates" / path.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
        workspace = (root / "Cargo.toml").read_text()
        members = f"members = {list(CRATES)}".replace("'", '"')
        workspace = re.sub(r"(?ms)^(members|exclude) = \[.*?\]\n", "", workspace)
        (base / "crates/Cargo.toml").write_text(workspace.replace("[workspace]", f"[workspace]\n{members}", 1))
        # A link to the original, which would change, too.
        manifest = base / "Cargo.toml"
        text = manifest.read_text()
        for crate, path in CRATES.items():
            text = text.replace(f'path = "{path}"', f'path = "crates/{crate}"')
        manifest.unlink()
        manifest.write_text(text)
        if in_repository:
            vendor = ["cargo", "vendor", "--quiet", "--locked", "--manifest-path", manifest, base / "vendor"]
            subprocess.run(vendor, check=True, stdout=subprocess.DEVNULL)
        else:
            shutil.copytree(HERE / "vendor", base / "vendor")
        (base / ".cargo").mkdir()
        (base / ".cargo/config.toml").write_text(VENDORED)


# A build leaves nothing in a checkout but cargo's `target`: the rest lasts as long as this process. A source
# distribution has its metadata within, and an editable installation may lead to its build.
leftovers = tempfile.TemporaryDirectory()
options = {}
if "sdist" not in sys.argv:
    options["egg_info"] = {"egg_base": leftovers.name}
if "editable_wheel" not in sys.argv:
    options["build"] = {"build_base": leftovers.name}

library = RustExtension(
    f"{PACKAGE}.{LIBRARY}",
    binding=Binding.NoBinding,
    # Features only by `ROPE_FEATURES`: what is published has none.
    features=os.environ.get("ROPE_FEATURES", "").split(),
    args=["--locked"],
    debug=False,
)
setup(
    options=options,
    rust_extensions=[] if BUILT else [library],
    ext_modules=[Extension(library.name, [])] if BUILT else [],
    cmdclass={"bdist_wheel": WheelOfEveryPython, "build_ext": BuildLibrary, "sdist": SourcesWithCrates},
)
