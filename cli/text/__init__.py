"""Output of the commands: decisions and gangs as text for a terminal, or as JSON and YAML.

Start with `decision_text`, the decisions of `phalanx solve`. `why_text` is the state of a gang for `phalanx why`.
`columns` aligns lists as kubectl does, and `structured` writes JSON and YAML for programs.
"""
