"""The container image: the parts of dependencies that it leaves out, and its build with the tools of a machine."""
