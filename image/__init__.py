"""The container image: which parts of dependencies it leaves out, and its build with the tools of this machine."""
