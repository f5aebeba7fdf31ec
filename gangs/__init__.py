"""Turns the objects and annotations of every dialect into one `Gang`. Pure: Kubernetes objects in, values out."""
