"""What a scenario found: figures on lines of their own, and bounds that hold or are broken."""

import statistics


class Verdict:
    """Prints figures as they come, and remembers which bounds were broken."""

    def __init__(self):
        self._broken = []

    def figure(self, name, value, note=""):
        """One figure, for people alone."""
        shown = f"{value:.2f}" if isinstance(value, float) else value
        print(f"{name:<58}{shown:>12}  {note}".rstrip(), flush=True)

    def bound(self, name, value, limit, unit=""):
        """One figure with the most it may be."""
        holds = value <= limit
        self.figure(name, value, f"{unit} (at most {limit:g}{'' if holds else ': BROKEN'})".strip())
        if not holds:
            self._broken.append(name)

    def warnings(self, broker):
        """How often the broker warned, and of what most."""
        kinds = broker.warnings()
        self.figure("warnings and errors of the broker", sum(kinds.values()))
        for kind, count in list(kinds.items())[:5]:
            self.figure("", count, kind)

    def sides(self, figures, beside, without, ratio_max):
        """Medians of rounds beside something and without it, and their ratio for the figures that have a bound."""
        print(f"{'medians of ' + str(len(beside)) + ' rounds in turn':<58}{'without':>12}{'beside':>12}{'ratio':>8}")
        for name, is_bound in figures.items():
            alone = statistics.median(each[name] for each in without)
            among = statistics.median(each[name] for each in beside)
            ratio = among / alone if alone else float("inf")
            broken = is_bound and ratio > ratio_max
            told = f"  (at most {ratio_max:g}{': BROKEN' if broken else ''})" if is_bound else ""
            print(f"{name:<58}{alone:>12.2f}{among:>12.2f}{ratio:>8.2f}{told}", flush=True)
            if broken:
                self._broken.append(name)

    def end(self):
        """The exit code, said in words."""
        print("BROKEN: " + ", ".join(self._broken) if self._broken else "every bound holds", flush=True)
        return 1 if self._broken else 0
