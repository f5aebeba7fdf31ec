"""The text that says how to check, sign, push and install the files of a release."""

from collections.abc import Mapping

from release.parts import Release

_CHECK = """\
Phalanx {version}. This folder is everything that an installation needs.

Check the files:

  sha256sum --check SHA256SUMS

Sign them (cosign; a key is named with --key, else it signs by OpenID Connect):

  cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS
"""
_PUSH = """
Push the image. The digests stay as they are:

{copies}
  crane index append -t {image}:{version} {manifests}

Sign the image, and attach the bill of materials and the provenance:

  cosign sign --yes --recursive {image}:{version}
  cosign attest --yes --type cyclonedx --predicate phalanx.cdx.json {image}:{version}
  python3 -c 'import json; print(json.dumps(json.load(open("provenance.intoto.json"))["predicate"]))' > predicate.json
  cosign attest --yes --type slsaprovenance1 --predicate predicate.json {image}:{version}

Image digests:

{digests}
"""
_CHART = """
Push the chart (either command):

  helm push phalanx-{version}.tgz oci://{charts}
  skopeo copy --preserve-digests oci-archive:phalanx-{version}-chart.oci.tar docker://{charts}/phalanx:{version}

Chart digest: {digest}
"""
_INSTALL = """
Install (once your registry has the image, as {image}:{version}):

  kubectl apply --server-side -f install.yaml
  helm install phalanx phalanx-{version}.tgz --set image.repository={image}
  tar xzf phalanx-{version}-manifests.tar.gz && kubectl apply --server-side -k phalanx-{version}/manifests/default

The command line: pip install phalanx-{version}-py3-none-any.whl, or

  kubectl krew install --manifest=phalanx-krew.yaml --archive=phalanx-{version}-krew.tar.gz
"""
_NO_URL = """
phalanx-krew.yaml has no download address, because URL= was not given. It works with --archive as above. To publish it,
run make release with URL=https://… (the folder where these files will be).
"""
_UNNAMED = """
The manifests name the image phalanx:{version}, because IMAGE= was not given. Nodes would search their default registry
for it. Run make release with IMAGE=registry.example.com/phalanx, or set the name in a kustomization (images:).
"""


def text(release: Release, images: Mapping[str, str], chart: str) -> str:
    """Return the text of the release's README.txt.

    :param images: the digest of each image by architecture, without the architectures that were not made.
    :param chart: the digest of the chart's OCI artifact; "" if it was not made.
    """
    image, version = release.image, release.version
    archives = {each: release.image_archive(each).name for each in images}
    copies = "\n".join(
        f"  skopeo copy --preserve-digests oci-archive:{archive} docker://{image}:{version}-{architecture}"
        for architecture, archive in archives.items()
    )
    digests = "\n".join(f"  linux/{architecture}  {digest}" for architecture, digest in images.items())
    manifests = " ".join(f"-m {image}:{version}-{architecture}" for architecture in images)
    charts = f"{image.rpartition('/')[0] or 'registry.example.com'}/charts"
    parts = [_CHECK.format(version=version)]
    if images:
        parts.append(_PUSH.format(copies=copies, image=image, version=version, manifests=manifests, digests=digests))
    parts.append(_CHART.format(version=version, charts=charts, digest=chart))
    parts.append(_INSTALL.format(version=version, image=image))
    if not release.url:
        parts.append(_NO_URL)
    if "/" not in image:
        parts.append(_UNNAMED.format(version=version))
    return "".join(parts)
