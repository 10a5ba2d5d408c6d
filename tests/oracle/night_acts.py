"""What senders and an operator do between the random nights."""

import os
import re

from faulty_exchange import FaultRule
from invariants import read_truth
from night_records import PARTS, Dropped, Input, key_of

LOST = ("reset_after_effect", "reset_before_effect")


class Acts:
    """The part of a walk in which files are dropped and people decide."""

    def _age(self):
        self.serial += 1
        return self.number, self.serial

    def drop_new(self):
        kind = self.random.choice(self.author.subject.kinds)
        age = self._age()
        inputs = {}
        for key in self.author.some_keys(kind):
            quality = self.author.some_quality(kind)
            parts = self.author.record(kind, key, quality, f"E{self.serial}")
            if quality == "good" and self.random.random() < 0.1:
                parts, quality = self._on_both_sheets(kind, parts)
            inputs[key] = Input(kind, key, *parts, quality, age, f"{kind}_{self.serial}")
        doubt = self.author.some_doubt(kind, inputs)
        contents = self._contents(kind, inputs, self.author.parts(kind), doubt)
        if doubt.startswith("lost"):
            self._lose(doubt.split()[1], inputs)
        self._drop(Dropped(contents, self.number, inputs, doubt), f"new ({doubt})" if doubt else "new")

    def _lose(self, part, inputs):
        """Nobody reads the rows of a sheet without headings."""
        for one in [one for one in inputs.values() if getattr(one, part)]:
            setattr(one, part, ())
            one.quality = self.author.quality(one.rows, one.more)
            if not one.all_rows:
                del inputs[one.key]

    def _on_both_sheets(self, kind, parts):
        """An order with rows on two sheets, if it has several rows and there are sheets."""
        rows = parts[0] + parts[1]
        if kind != "orders" or self.author.layout != "sheets" or len(rows) == 1:
            return parts, "good"
        return (rows[:1], rows[1:]), "wrong"

    def _contents(self, kind, inputs, parts, doubt=""):
        """The bytes of the files in which these parts of the inputs stand, by name. The rows of a file may be in any order."""
        written = {}
        for part in parts:
            rows = written[part] = [row for one in inputs.values() for row in getattr(one, part)]
            if self.random.random() < 0.3:
                self.random.shuffle(rows)
            for one in inputs.values():
                setattr(one, part, tuple(row for row in rows if key_of(kind, row) == one.key))
        return self.author.contents(kind, written, self.serial, doubt)

    def drop_again(self):
        """What came before, under its names or others; of two files that are read together, one may be new."""
        earlier = [dropped for dropped in self.files if dropped.night < self.number]
        if not earlier:
            return
        dropped, age = self.random.choice(earlier), self._age()
        if len(dropped.contents) == 2 and self.random.random() < 0.3:
            self._drop_half_again(dropped, age)
            return
        if self.random.random() < 0.4:
            copies = {
                re.sub(r"\.", f"_copy{self.serial}.", name): content for name, content in dropped.contents.items()
            }
            dropped = Dropped(copies, dropped.night, dropped.inputs, dropped.doubt)
        self._drop(dropped, "again")

    def _drop_half_again(self, dropped, age):
        kept, new = self.random.sample(PARTS, 2)
        inputs = {}
        for one in dropped.inputs.values():
            rows = dict(zip(PARTS, self.author.record(one.kind, one.key, "good", ""), strict=True))
            rows[kept] = getattr(one, kept)
            quality = self.author.quality(*rows.values())
            inputs[one.key] = Input(one.kind, one.key, *rows.values(), quality, age, f"{one.kind}_{self.serial}")
        contents = dict(zip(PARTS, dropped.contents.values(), strict=True))
        ((_, contents[new]),) = self._contents("orders", inputs, [new]).items()
        names = [f"{file}_{self.serial}.csv" for file in ("orders", "packages")]
        contents = dict(zip(names, contents.values(), strict=True))
        doubt = dropped.doubt if dropped.doubt == f"cut {kept}" else ""
        self._drop(Dropped(contents, self.number, inputs, doubt), f"{kept} of {dropped.name} with new {new} as")

    def _drop(self, dropped, said):
        """Put files into the inbox. Of two that are read together, one may come on a later night."""
        if any((self.workspace.inbox / name).exists() for name in dropped.contents):
            return
        now, late = list(dropped.contents), []
        if len(now) > 1 and self.random.random() < 0.3:
            late = [now.pop(self.random.randrange(2))]
        for name in now:
            self._place(name, dropped.contents[name])
        self.log.append(f"  {said} {', '.join(now)}: {', '.join(map(repr, dropped.inputs.values()))}")
        if late:
            self.waiting.append((dropped, *late, self.number))
        else:
            self._came(dropped)

    def _place(self, name, content):
        """Each file is newer than those before it."""
        path = self.workspace.inbox / name
        path.write_bytes(content)
        changed = self.now.timestamp() - 3600 + self.serial
        os.utime(path, (changed, changed))

    def _came(self, dropped):
        """All files that are read together are there: their inputs count."""
        contents = set(dropped.contents.values())
        if all({*other.contents.values()} != contents for other in self.files):
            self.files.append(dropped)
        self.inputs += [one for one in dropped.inputs.values() if one not in self.inputs]
        self.came[self.number, dropped.name] = dropped

    def bring_late_files(self):
        for one in list(self.waiting):
            dropped, name, _ = one
            if self.random.random() < 0.5:
                continue
            self.waiting.remove(one)
            age = self._age()
            for input_ in dropped.inputs.values():
                if input_ not in self.inputs:
                    input_.age = age
            self._place(name, dropped.contents[name])
            self.log.append(f"  late {name}")
            self._came(dropped)

    def retry(self):
        """A person releases what is held or refused for a key: that is newer than all before, unless something newer of the key
        waits already. Of several that are released together, none is newer.
        """
        held = self._entries("state in ('held', 'refused')")
        if not held:
            return
        key = self.random.choice(sorted({key for _, key, *_ in held}))
        waiting = {key for _, key, *_ in self._entries("state = 'ready' and operation like '%create'")}
        done = self._command("retry", key, "--comment", "it is right")
        self.log.append(f"  retry {key}: {done.returncode} {done.stderr.strip()[:150]}")
        ready = {number for number, *_ in self._entries("state = 'ready'")}
        age = self.number, self._age()[1] / 1e6  # before what the run reads
        for number, own, run, file in held:
            one = self.came[run, file].inputs[own]
            if number in ready:  # of a tender, also its quotes and decisions
                self.released[number] += 1
                one.released = age
                if one.quality == "good" and own not in waiting:
                    one.age, one.corrected = age, None

    def resolve(self):
        """A person looks at the exchange and says what is there."""
        unknown = self._entries("state = 'unknown'")
        if not unknown:
            return
        number, key, *_ = self.random.choice(unknown)
        sent = {sha for (sha,) in self.workspace.ask("select request_hash from attempts where entry_id = ?", number)}
        is_there = any(line["sha256"] in sent for line in read_truth(self.served.truth))
        words = ["--accepted"] if is_there else ["--send-again", "--i-know-it-may-double"]
        done = self._command("resolve", key, *words, "--yes", "--comment", "seen", "--exchange", self.served.url)
        self.released[number] += 1
        self.log.append(f"  resolve {key} {words[0]}: {done.returncode} {(done.stdout + done.stderr).strip()[:200]}")

    def lose_an_answer(self):
        subject = self.author.subject
        operation, key = self.random.choice(subject.operations), self.random.choice(subject.keys)
        if operation in ("tender.quote", "tender.confirm"):
            key += "/C1"
        self.served.front._rules.append(rule := FaultRule(self.random.choice(LOST), operation, key=key, at=(1,)))
        self.log.append(f"  lost: {rule}")
