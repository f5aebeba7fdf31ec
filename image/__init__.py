"""Builds the container image with the tools of this machine, and removes from it the parts of dependencies that Phalanx
never imports.
"""
