"""The HTTP surface: admission, dry run, live picture, metrics. Answers from memory and writes nothing."""
