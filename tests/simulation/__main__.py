"""`make simulate`: run schedules, or replay and minimise one seed.

python -m simulation SEED               replay the seed; minimise it if it fails, and print the trace
python -m simulation --schedules N      run N fresh seeds; print each that fails
"""

import argparse
import secrets
import sys
import time
from collections import Counter

from simulation.known import unknown
from simulation.minimise import minimised
from simulation.schedule import run, simulating


def say(text: str) -> None:
    """Write a line to standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the command; 1 if an invariant was broken."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, help="replay this seed")
    parser.add_argument("--schedules", type=int, default=100, metavar="N", help="run so many fresh seeds")
    parser.add_argument("--first", type=int, metavar="SEED", help="in place of fresh seeds: this one and the next")
    parser.add_argument("--forgets", action="store_true", help="with a scheduler before Kubernetes 1.37")
    parser.add_argument("--stop", action="store_true", help="end at the first that breaks an invariant")
    asked = parser.parse_args()
    with simulating():
        if asked.seed is not None:
            return _replay(asked.seed, forgets=asked.forgets)
        return _search(asked.schedules, asked.first, stop=asked.stop, forgets=asked.forgets)


def _replay(seed: int, *, forgets: bool) -> int:
    result = run(seed, forgets=forgets)
    if result.violations:
        result = minimised(result, lambda text: say(f"minimising: {text}"))
    say("\n".join(result.trace))
    say(f"\nseed {seed}: {len(result.taken)} choices: {' '.join(sorted(result.taken))}")
    say("\n".join(result.violations) or "no invariant was broken")
    return bool(result.violations)


def _search(schedules: int, first: int | None, *, stop: bool, forgets: bool) -> int:
    began, failed, known = time.process_time(), 0, 0
    counts: Counter[str] = Counter()
    start = secrets.randbits(40) if first is None else first
    for seed in range(start, start + schedules):
        result = run(seed, forgets=forgets)
        counts.update(result.counts)
        news = unknown(result.violations)
        known += bool(result.violations) and not news
        if news:
            failed += 1
            say(f"seed {seed}: {'; '.join(news)}")
            if stop:
                break
    seconds, done = time.process_time() - began, seed - start + 1
    rate = 3600 * done / seconds
    say(f"{done} schedules from seed {start}: {failed} broke an invariant, {known} a known one")
    for what, count in sorted(counts.items()):
        say(f"{count / done:6.2f} {what} in each schedule")
    say(f"{seconds:.0f} s of processor time, {rate:.0f} schedules an hour")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
