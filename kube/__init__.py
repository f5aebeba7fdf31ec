"""The Kubernetes objects Phalanx reads, as lean structs, and the few rules for reading them. No I/O."""
