"""What is asked, by theme. Each module has CASES: functions of a side."""

from cases import configs, fetch, frames, offsets, produce, topics

MODULES = [frames, topics, produce, fetch, offsets, configs]
CASES = [(module.__name__.rsplit(".", 1)[-1], case) for module in MODULES for case in module.CASES]
