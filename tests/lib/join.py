# join.py -- a naive implementation of emb_join, and streams for it.
#
# The reference takes one event after another, keeps everything in
# dictionaries, and scans all of it whenever time moves.  It shares nothing
# with ext/data/join except the rules of sql/manual/joining.md; of emb it uses
# only emb_random, which tests/sql/data/random.test compares with another
# implementation.
import collections, math

COUNTS = ("requests waiting duplicate old actions joined repeated outside other"
          " early unmatched late corrected negatives dropped pending").split()


class Reference:
    def __init__(self, db, kinds, sources, **options):
        self.db, self.kinds = db, kinds
        self.share, self.seed, self.delay = 1, 0, 0
        self.label, self.late = "first", "drop"
        self.window = max(window for window, label in kinds.values())
        self.remember = self.early = self.window
        self.__dict__.update(options)
        self.times = dict.fromkeys(sources)
        self.known = {}       # id: [time, features, state, best kind]
        self.before = {}      # id: {(time, kind)}, actions before their request
        self.examples = []
        self.n = collections.Counter()
        self.looked = None    # at this watermark

    def watermark(self):
        times = self.times.values()
        return None if None in times else min(times) - self.delay

    def event(self, source, request, time, kind, features):
        last = self.times[source]
        self.times[source] = time if last is None else max(last, time)
        self.time_moves()
        if request is None:
            return
        if kind is None:
            self.request(request, time, features)
        elif kind in self.kinds:
            self.n["actions"] += 1
            if request in self.known:
                self.action(request, time, kind)
            else:
                self.keep(request, time, kind)
        else:
            self.n["other"] += 1

    def over(self, time, after):
        now = self.watermark()
        return now is not None and time + after <= now

    def time_moves(self):
        now = self.watermark()
        if now == self.looked:
            return
        self.looked = now
        due = now - self.window
        for request in [request for request, known in self.known.items()
                        if known[0] <= due]:
            time, _, state, _ = self.known[request]
            if state == "waiting":
                self.settle(request)
            if self.over(time, self.window + self.remember):
                del self.known[request]
        for request, actions in list(self.before.items()):
            for action in list(actions):
                if self.over(action[0], self.early):
                    actions.remove(action)
                    self.n["early"] -= 1
                    self.n["unmatched"] += 1
            if not actions:
                del self.before[request]

    def give(self, request, kind, label, weight):
        time, features = self.known[request][:2]
        self.examples.append((request, time, kind, label, weight,
                              -math.log(self.share) if self.share < 1 else 0,
                              features))

    def positive(self, request, kind):
        self.give(request, kind, self.kinds[kind][1], 1)
        self.known[request][2] = "joined"
        self.n["joined"] += 1

    def settle(self, request):
        best = self.known[request][3]
        self.n["waiting"] -= 1
        if best is not None:
            self.n["pending"] -= 1
            self.positive(request, best)
        elif self.db.execute("SELECT emb_random(?, ?)",
                             (self.seed, request)).fetchone()[0] < self.share:
            self.n["negatives"] += 1
            self.known[request][2] = "negative"
            self.give(request, None, 0, 1 / self.share)
        else:
            self.n["dropped"] += 1
            self.known[request][2] = "dropped"

    def request(self, request, time, features):
        self.n["requests"] += 1
        if self.over(time, self.window + self.remember):
            self.n["old"] += 1
        elif request in self.known:
            self.n["duplicate"] += 1
        else:
            self.n["waiting"] += 1
            self.known[request] = [time, features, "waiting", None]
            for at, kind in sorted(self.before.pop(request, ())):
                self.n["early"] -= 1
                self.action(request, at, kind)
            if (self.known[request][2] == "waiting" and
                    self.over(time, self.window)):
                self.settle(request)

    def keep(self, request, time, kind):
        if self.over(time, self.early):
            self.n["unmatched"] += 1
        elif (time, kind) in self.before.get(request, ()):
            self.n["repeated"] += 1
        else:
            self.before.setdefault(request, set()).add((time, kind))
            self.n["early"] += 1

    def action(self, request, time, kind):
        known = self.known[request]
        window, label = self.kinds[kind]
        if time > known[0] + window:
            self.n["outside"] += 1
        elif known[2] == "joined":
            self.n["repeated"] += 1
        elif known[2] != "waiting":
            self.n["late"] += 1
            if self.late == "correct":
                self.n["corrected"] += 1
                if known[2] == "negative":
                    self.give(request, None, 0, -1 / self.share)
                self.positive(request, kind)
        else:
            self.label_of(request, kind, label)

    def label_of(self, request, kind, label):
        known = self.known[request]
        best = known[3]
        self.n["repeated"] += best is not None
        if (self.label == "first" or
                label == max(l for w, l in self.kinds.values())):
            self.n["waiting"] -= 1
            self.n["pending"] -= best is not None
            known[3] = None
            self.positive(request, kind)
        elif best is None or self.kinds[best][1] < label:
            self.n["pending"] += best is None
            known[3] = kind


def request_id(n):
    return [n, "request %d" % n, b"\x00%d" % n, -n][n % 4]


# Events of each source in the order in which they arrive: (request, time, kind,
# features).  Some come more than once, some long after their time.
def stream(random, count, sources, kinds, window):
    arrive = {source: [] for source in sources}

    def send(event, time, delay):
        for copy in range(1 + (random.random() < 0.1)):
            late = random.random() < 0.05
            source = random.choice(sources)
            arrive[source].append(
                (time + random.random() * delay * (20 if late else 1), event))

    for n in range(count):
        time = n * 3 + random.randrange(10)
        request = request_id(n)
        features = random.choice([random.randbytes(random.randrange(200)),
                                  "text %d" % n, None, n, n / 7])
        if random.random() < 0.001:
            time += 100 * window
        if random.random() < 0.97:
            send((request, time, None, features), time, window / 4)
        for _ in range(random.choice([0, 0, 0, 1, 1, 2, 3])):
            kind = random.choice(list(kinds) + ["other"])
            at = time + int(random.expovariate(3 / window))
            send((request, at, kind, None), at, window / 4)
        if random.random() < 0.01:
            send((None, time, None, None), time, window / 4)
    return {source: [event for _, event in sorted(events, key=lambda e: e[0])]
            for source, events in arrive.items()}
