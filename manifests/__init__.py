"""What is applied to a cluster: plain manifests. A package, so that the program finds them wherever it is installed."""
