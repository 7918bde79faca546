"""A broker of the scenario's own, and what the kernel knows of it."""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
ALL_CPUS = os.sched_getaffinity(0)
# A broker that doesn't end by then is killed, which fails the scenario.
STOP_SECONDS = 60


class Broker:
    """`ringlog serve` in a folder of its own. To be used in `with`."""

    def __init__(self, options, routing="shard", cpus=None, settings=None):
        self._folder = tempfile.mkdtemp(prefix="pressure-", dir=options.scratch)
        self._ringlog = options.ringlog
        self.shards = len(processors(cpus or options.cpus))
        self._stats = f"{self._folder}/stats"
        self.log = f"{self._folder}/log"
        command = [options.ringlog, "serve", "--listen", "127.0.0.1:0", "--json", "--routing", routing]
        command += ["--cpus", cpus or options.cpus, "--data-dir", f"{self._folder}/data", "--stats-file", self._stats]
        self._command = command + (self._configuration(settings) if settings else [])
        self.start()

    def start(self):
        """Starts it, again where it has ended; answers how many seconds that took until it was ready."""
        begun = time.monotonic()
        with open(self.log, "ab") as log:
            # The CPUs that this process keeps off are for the broker.
            everywhere = lambda: os.sched_setaffinity(0, ALL_CPUS)
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, preexec_fn=everywhere)
        line = self._process.stdout.readline()
        if not line:
            said = self.said()
            self.__exit__()
            raise SystemExit(f"the broker doesn't start:\n{said}")
        self.ready = json.loads(line)
        return time.monotonic() - begun

    def _configuration(self, settings):
        """Kafka's settings in a file; with one, a folder has to be formatted first."""
        path = f"{self._folder}/ringlog.toml"
        with open(path, "w", encoding="ascii") as file:
            file.write("[kafka]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        subprocess.run([self._ringlog, "format", "--data-dir", f"{self._folder}/data"], check=True, capture_output=True)
        return ["--config", path]

    def __enter__(self):
        return self

    def kill(self):
        """Ends it as `kill -9` does; it may be started again."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def table_mib(self):
        """What the limits of all shards come to, as it has told."""
        return self.ready["memory"]["total_bytes"] / MIB

    @property
    def pid(self):
        return self._process.pid

    @property
    def addresses(self):
        """Where clients may come, as `host:port`, each once."""
        return list(dict.fromkeys(endpoint["address"] for endpoint in self.ready["endpoints"]))

    def said(self):
        """Its log."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def warnings(self):
        """How often it said what, numbers aside, once it was ready."""
        lines = re.findall(r"^\S+\s+(?:WARN|ERROR) (.*)$", self.said(), re.M)
        kinds = collections.Counter(re.sub(r"\d+", "N", line)[:110] for line in lines)
        return {kind: count for kind, count in kinds.most_common() if "ringlog::serve::" not in kind}

    def is_running(self):
        return self._process.poll() is None

    def resident(self):
        """Memory in use, in bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * PAGE

    def processor_seconds(self):
        """User and system time since its start."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def waited_seconds(self):
        """How long its threads could have run and others had their CPUs, since their starts."""
        waited = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/schedstat", encoding="ascii") as stat:
                    waited += int(stat.read().split()[1])
            except FileNotFoundError:
                pass  # It has ended meanwhile.
        return waited / 1e9

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stats(self):
        """The counters of its shards, a fifth of a second old at most."""
        with open(self._stats, encoding="ascii") as file:
            return json.load(file)["shards"]

    def topic(self, *words):
        """What `ringlog topic` answers."""
        command = [self._ringlog, "topic", words[0], "--bootstrap", self.addresses[0], "--json", *words[1:]]
        run = subprocess.run(command, capture_output=True, check=False, text=True)
        if run.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {run.stderr}")
        return json.loads(run.stdout) if run.stdout.strip().startswith(("{", "[")) else None

    def stop(self):
        """Ends it in order; answers how many seconds that took."""
        start = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"the broker doesn't end within {STOP_SECONDS} s:\n{self.said()[-2000:]}") from None
        if code != 0:
            raise SystemExit(f"the broker ended with code {code}:\n{self.said()[-2000:]}")
        return time.monotonic() - start


class Repeated:
    """Does one thing again and again in a thread of its own, in `with`."""

    def __init__(self, seconds, once):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(seconds, once), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self, seconds, once):
        while not self._stop.wait(seconds):
            once()


class Watch(Repeated):
    """Looks at the broker's memory every 100 ms, in `with`."""

    def __init__(self, broker):
        super().__init__(0.1, self._look)
        self._broker = broker
        self.samples = []

    def _look(self):
        try:
            self.samples.append(self._broker.resident())
        except (OSError, IndexError):
            pass  # It has ended.

    @property
    def peak(self):
        return max(self.samples, default=0)


def keep_off(cpus):
    """Moves this process, and those it starts, to the CPUs that no shard has, where there are such."""
    free = ALL_CPUS - set(processors(cpus))
    if free:
        os.sched_setaffinity(0, free)


def processors(cpus):
    """The CPU of each shard, of a list such as `0,2-5`."""
    parts = [part.partition("-") for part in cpus.split(",")]
    return [cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1)]
