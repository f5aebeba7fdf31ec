"""The Kubernetes objects Phalanx reads, as lean structs, and the few rules for reading each by itself. No I/O."""
