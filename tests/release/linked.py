"""Lists the crates that a release links: their licenses as text, or a software bill of materials (CycloneDX 1.6).

    linked.py licenses MANIFEST ..
    linked.py sbom VERSION COMMIT MANIFEST ..

A manifest's crates are those that cargo links with its default features on the platforms of a release: no procedural
macros and no build scripts, which only run while it is built. Rust's standard library is linked, too; its licenses are
those that the toolchain brings.
"""

import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone

PLATFORMS = [
    "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl",
    "x86_64-pc-windows-gnullvm", "aarch64-pc-windows-gnullvm", "x86_64-apple-darwin", "aarch64-apple-darwin",
]
WEB = ["wasm32-unknown-unknown"]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def graph(manifest, platform):
    """Yields the package of the manifest first, then what is linked into it, each with its own dependencies."""
    found = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", manifest,
                           "--filter-platform", platform))
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    path = pathlib.Path(manifest).resolve()
    root = next(id for id, package in packages.items() if pathlib.Path(package["manifest_path"]) == path)
    waiting, seen = [root], set()
    while waiting:
        id = waiting.pop(0)
        if id in seen:
            continue
        seen.add(id)
        linked = [dep["pkg"] for dep in nodes[id]["deps"]
                  if any(kind["kind"] is None for kind in dep["dep_kinds"])
                  and not any("proc-macro" in target["kind"] for target in packages[dep["pkg"]]["targets"])]
        waiting += linked
        yield packages[id], [packages[other] for other in linked]


def linked(manifests):
    """The packages by name and version, and the names and versions that each depends on."""
    packages, edges = {}, {}
    for manifest in manifests:
        for platform in WEB if "playground" in manifest else PLATFORMS:
            for package, others in graph(manifest, platform):
                packages[key(package)] = package
                edges.setdefault(key(package), set()).update(map(key, others))
    return packages, edges


def key(package):
    return package["name"], package["version"]


def licenses(manifests):
    packages, _ = linked(manifests)
    texts = {}
    for (name, version), package in sorted(packages.items()):
        if package["source"] is None:
            continue
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(path for path in folder.iterdir() if re.match(r"(?i)(licen[sc]e|copying|notice)", path.name))
        if not files:
            raise SystemExit(f"{name} {version} has no license among its files")
        for path in files:
            text = path.read_text().replace("\r\n", "\n").strip()
            texts.setdefault(text, []).append(f"{name} {version} ({package['license']})")
    for text, names in texts.items():
        print("\n".join(names), text, "=" * 80, sep="\n\n")
    sysroot = pathlib.Path(run("rustc", "--print", "sysroot").strip())
    page = (sysroot / "share/doc/rust/COPYRIGHT-library.html").read_text()
    page = re.sub(r"(?s)<(style|head|script).*?</\1>|<[^>]*>", "", page)
    print("The standard library of Rust, and LLVM's libunwind\n")
    print(re.sub(r"\n\s*\n+", "\n\n", html.unescape(page)).strip())
    print("=" * 80, (sysroot / "share/doc/rust/licenses/LLVM-exception.txt").read_text().strip(), sep="\n\n")


def sbom(version, commit, manifests):
    packages, edges = linked(manifests)
    checksums = {}
    for manifest in manifests:
        folder = pathlib.Path(manifest).resolve().parent
        while not (folder / "Cargo.lock").exists():
            folder = folder.parent
        for package in tomllib.loads((folder / "Cargo.lock").read_text())["package"]:
            if "checksum" in package:
                checksums[package["name"], package["version"]] = package["checksum"]

    def reference(name, version):
        return f"pkg:cargo/{name}@{version}"

    components = []
    for name_version, package in sorted(packages.items()):
        purl = reference(*name_version)
        component = {
            "type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"],
            "scope": "required", "licenses": [{"expression": package["license"].replace("/", " OR ")}],
            "purl": purl,
        }
        if package["source"] is not None:
            component["hashes"] = [{"alg": "SHA-256", "content": checksums[name_version]}]
        components.append(component)
    rustc = dict(line.split(": ", 1) for line in run("rustc", "-vV").splitlines() if ": " in line)
    std = f"pkg:generic/rust-std@{rustc['release']}"
    components.append({
        "type": "library", "bom-ref": std, "name": "rust-std", "version": rustc["release"], "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}], "purl": std,
    })
    own = f"pkg:generic/rope@{version}"
    roots = sorted(reference(*name) for name, package in packages.items() if package["source"] is None)
    depends = [{"ref": own, "dependsOn": [*roots, std]}]
    for name, others in sorted(edges.items()):
        depends.append({"ref": reference(*name), "dependsOn": sorted(reference(*other) for other in others)})
    made = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    print(json.dumps({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{own}#{commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": made.isoformat().replace("+00:00", "Z"),
            "tools": {"components": [{"type": "application", "name": "rustc", "version": rustc["release"]}]},
            "component": {
                "type": "library", "bom-ref": own, "name": "rope", "version": version, "purl": own,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "properties": [{"name": "commit", "value": commit}],
            },
        },
        "components": components,
        "dependencies": depends,
    }, indent=1))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "licenses":
        licenses(rest)
    elif what == "sbom":
        sbom(rest[0], rest[1], rest[2:])
    else:
        raise SystemExit(__doc__)
