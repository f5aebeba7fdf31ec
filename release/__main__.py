"""`python -m release DIR`: writes every file of a release into one folder, and prints how to sign and push them.

If this machine cannot make a part, the command names the part and the remedy, makes the other parts and exits with 1.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from release import files, image, instructions, provenance
from release.parts import NotMadeError, Release, source_commit, source_time, version

TEXT = "README.txt"
_FAILED = 1
_WRONG_ARGUMENTS = 2


def main(arguments: Sequence[str]) -> int:
    """Make all parts that can be made. Return the exit status: 0 if all parts were made."""
    options = _parsed(arguments)
    release = Release(
        options.folder,
        version(),
        source_time(),
        image=options.image or "phalanx",
        url=options.url.rstrip("/"),
        homepage=options.homepage,
        commit=source_commit(),
    )
    release.folder.mkdir(parents=True, exist_ok=True)
    if any(release.folder.iterdir()):
        _say(f"error: {release.folder} is not empty: name a new folder")
        return _WRONG_ARGUMENTS
    if not release.commit:
        _say("warning: the checkout has changes, or is none: the provenance names no commit")
    missing: list[str] = []
    chart: list[str] = []
    images: list[image.Made] = []

    def attempt(part: str, make: Callable[[], object]) -> None:
        _say(f"{part} …")
        try:
            make()
        except NotMadeError as error:
            missing.append(f"{part}: {error}")

    attempt("wheel", lambda: files.wheel(release))
    attempt("manifests", lambda: files.manifests(release))
    attempt("chart", lambda: chart.append(files.chart(release)))
    attempt("krew plugin", lambda: files.krew(release))
    attempt("bills of materials", lambda: files.bills_of_materials(release))
    for each in options.arches:
        attempt(f"image for {each}", partial(_image, release, each, images))
    digests = {each.architecture: each.digest for each in images}
    named = {f"{release.image}:{release.version}-{each}": digest for each, digest in digests.items()}
    downloads = {name: digest for each in images for name, digest in each.dependencies.items()}
    provenance.write(release, provenance.statement(release, options.arches, named, downloads, options.builder))
    text = instructions.text(release, digests, "".join(chart))
    release.path(TEXT).write_text(text)
    sys.stdout.write(text)
    for each in missing:
        _say(f"error: not made: {each}")
    return _FAILED if missing else 0


def _image(release: Release, architecture: str, images: list[image.Made]) -> None:
    """Make the image for an architecture, and add the image to `images`. Write the bill of materials of its base."""
    if not release.wheel.exists():
        raise NotMadeError("the image contains the wheel, which was not made")
    made = image.make(release, architecture)
    release.path(f"phalanx-base-{architecture}.cdx.json").write_bytes(made.components)
    images.append(made)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new or empty folder")
    parser.add_argument(
        "--arches",
        nargs="*",
        choices=image.ARCHITECTURES,
        default=image.ARCHITECTURES,
        help="architectures of the image",
    )
    parser.add_argument("--image", default="", help="the image's name in a registry, without a tag")
    parser.add_argument("--url", default="", help="the address of the folder from which users download the files")
    parser.add_argument("--homepage", default="", help="the page that krew shows. Default: the address")
    parser.add_argument("--builder", default="", help="the builder's URI in the provenance")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
