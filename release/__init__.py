"""The files of a release: images, chart, manifests, wheel, krew plugin, bills of materials, provenance, checksums.

Start with `__main__`, which writes them into one folder. Equal inputs give equal files, byte for byte.
"""
