"""All gangs, kept as they were read: changes of pods and objects come in, out go the gangs that read differently.

Start with `readings`. `pods` finds pods by what they name; `dependencies` holds what a reading looked at, so that it is
read again when that has changed, and only then.
"""
