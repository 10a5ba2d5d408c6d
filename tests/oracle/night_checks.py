"""What must be so after each of the random nights."""

from collections import Counter

from invariants import read_ledger, read_truth
from night_records import OF_CARRIERS


class Checks:
    """The oracle of a walk: what it holds against the documentation."""

    def _check_rows(self, said, dropped):
        """Each row that came is accounted for."""
        came = [one for (night, file), one in self.came.items() if night == self.number and file in dropped]
        rows = sum(len(one.all_rows) for file in came for one in file.inputs.values())
        assert said["balance"]["balances"]
        runs = {said["run"], *self.killed}
        own = [file for drop in said["drops"] if drop["run"] in runs for file in drop["files"]]
        assert sum(table["rows"] for file in own for table in file["tables"]) == rows, (own, rows)
        assert not (self.waiting and self.is_impatient) or said["exit_code"], "nobody is told that a file did not come"

    def _check_forecast(self, foreseen, said):
        """A dry run says before what a run does that sends all, and of which the exchange refuses and loses nothing."""
        if {"refused", "outcome unknown"} & set(said["verdicts"]) or foreseen["already"]["unknown"]:
            return
        if self._entries("state = 'ready'"):
            return
        own = Counter()
        for drop in said["drops"]:
            if drop["run"] == said["run"]:
                own.update(drop["entries"])
        told = Counter(foreseen["records"])
        told["held"] += told.pop("waiting", 0)
        told["accepted"] += told.pop("ready", 0)
        assert +told == +own, (told, own)
        assert foreseen["exit_code"] == said["exit_code"], (foreseen, said["verdicts"], said["settled"])

    def _check_records(self, said, limited):
        """What is not as its newest input says is an open exception, or waits; and a run that says that all is well lets none of its own so."""
        records, events = self._records()
        pending = {key for _, key, *_ in self._entries("state in ('ready', 'sending', 'unknown')")}
        for one, is_so, mappings in self._wishes(records, events):
            if is_so or one.key in pending:
                continue
            shown = [line for line in self.exceptions if line["Key"] == one.key and line["Mapping"] in mappings]
            assert shown, f"{one!r}: not so, and no open exception; the exchange has {records.get(one.key)}"
            assert one.age[0] < self.number or said["exit_code"], f"{one!r}: not so, and the run said that all is well"
        several = {one.key for one in self.inputs if self.author.layout == "sheets" and one.rows and one.more}
        shown = Counter(
            (line["Key"], line["Operation"], line["Mapping"])
            for line in self.exceptions
            if line["Operation"] != "order.status" and line["Outcome"] not in ("not sent: held", "outcome unknown")
            if line["Key"] not in several  # each sheet has a record of its own
        )
        assert set(shown.values()) <= {1}, shown

    def _wishes(self, records, events):
        """Inputs that nothing newer replaced, each with whether the exchange is as it says, and the mappings whose exception may show it."""
        subject = self.author.subject
        for key in subject.keys:
            own = sorted(
                (one for one in self.inputs if one.record == key and not one.corrected), key=lambda one: one.age
            )
            deleted = max((one.age for one in own if one.kind == subject.deletes), default=(0, 0))
            created = max(
                (one.age for one in own if one.kind in subject.creates and one.quality == "good"), default=(0, 0)
            )
            city, *goods = records.get(key, (None,))
            updates = [one for one in own if one.kind == subject.updates and one.age > deleted]
            for kind in subject.creates:
                decided = self._decided(key, own, kind)
                for one in [one for one in own if one.kind == kind and one.age > max(deleted, decided)][-1:]:
                    first = min(
                        same.first or same.age for same in own if same.all_rows == one.all_rows and same.age > deleted
                    )
                    later = [update for update in updates if update.quality == "good" and update.age >= first]
                    is_so = key in records and one.goods == goods and (one.cells[1] == city or later)
                    yield one, one.quality == "good" and is_so, (kind,)
            for one in [one for one in own if one.kind == subject.deletes and deleted > created][-1:]:
                yield one, key not in records, (subject.mappings[one.kind],)
            for one in [one for one in updates if one.age > created][-1:]:
                yield (
                    one,
                    one.quality == "good" and one.cells[1] == city,
                    (subject.mappings[one.kind], subject.creates[0]),
                )
            for one in [one for one in own if one.kind == "events"]:
                yield one, events[one.cells[:2]] or deleted[0] >= one.age[0], ("events",)
            yield from self._wishes_of_carriers(
                [one for one in own if one.kind in OF_CARRIERS and one.age[0] > deleted[0]], records
            )

    def _wishes_of_carriers(self, own, records):
        """The last quote of each carrier, and the last decision on it."""
        for key in sorted({one.key for one in own}):
            quotes = [one for one in own if (one.kind, one.key) == ("quotes", key)]
            decisions = [one for one in own if (one.kind, one.key) == ("decisions", key)]
            for one in quotes[-1:]:
                is_so = records.get((one.kind, *one.cells[:2])) == one.cells[2]
                yield one, one.quality == "good" and is_so, ("quotes",)
            for one in decisions[-1:]:
                is_so = records.get((one.kind, *one.cells[:2])) == one.cells[4] or (quotes and quotes[-1].age > one.age)
                yield one, one.quality == "good" and is_so, ("confirmations",)

    def _decided(self, key, own, kind):
        """When the other sender last said something of a record, if a person ever said that it is to be sent: then both mean one record."""
        creates = self.author.subject.creates
        others = [one for one in own if one.kind in creates and one.kind != kind]
        is_one = any(one.released > (0, 0) for one in self.inputs if one.kind in creates and one.key == key)
        return max((max(one.released, one.age) for one in others if is_one), default=(0, 0))

    def _ledger(self):
        return read_ledger(self.workspace.state / "ledger.db")

    def _check_calls(self):
        """Nothing is sent twice, unless its answer was lost or a person said so."""
        known = self._ledger()
        written = {attempt["request_hash"] for attempt in known.attempts}
        assert written.issuperset(line["sha256"] for line in read_truth(self.served.truth))
        lost = self.lost + Counter(key for _, _, keys in self.served.front.fired for key in keys.split())
        for entry in known.entries:
            most = 1 + self.released[entry["id"]] + max(lost[entry["key"]], 2 * bool(lost[entry["key"]]))
            is_event = entry["operation"] == "order.status"  # one of a refused batch goes again alone
            assert entry["attempts"] <= most or is_event, entry
        if not self.lost and not any(operation == "order.status" for _, operation, _ in self.served.front.fired):
            assert max(self._records()[1].values(), default=0) <= 1

    def _check_doubts(self):
        """Nothing of a file in doubt was sent, unless a person said so, or no file before it shows that it is in doubt."""
        statement = """
            select entries.id, runs.name, sent.name, (select name from files where drop_id = drops.id order by id limit 1)
            from attempts join entries on entries.id = attempts.entry_id join drops on drops.id = entries.drop_id
            join runs on runs.id = drops.run_id join runs sent on sent.id = attempts.run_id order by attempts.started_at
            """
        rows = [
            (entry, self.nights[run], self.nights[sent], file)
            for entry, run, sent, file in self.workspace.ask(statement)
        ]
        known = {
            (file.partition("_")[0], self.came[night, file].doubt)
            for entry, night, _, file in rows
            if self.released[entry]
        }
        sent = []
        for _, night, sent_in, file in rows:
            kind, one = file.partition("_")[0], self.came[night, file]
            verb, _, part = one.doubt.partition(" ")
            if one.doubt and (kind, one.doubt) not in known:
                before = [other for then, other in sent if then < night and other.name.startswith(kind)]
                shows = (
                    [getattr(own, part) for other in before for own in other.inputs.values()]
                    if verb == "lost"
                    else before
                )
                assert not any(shows), f"{file} ({one.doubt}) was sent"
                known |= {(kind, one.doubt)}
            sent.append((sent_in, one))

    def _check_quiet_nights(self):
        """Nights without a file change nothing, once nothing is left to send."""
        found = []
        for _ in range(4):  # an answer may be lost in the first
            said = self._run()
            states = self.workspace.ask("select id, state from entries where state <> 'unknown' order by id")
            shown = [(line["Exception"], line["Outcome"]) for line in self.exceptions]
            found.append((said["exit_code"], self._records(), states, shown))
        assert found[-2] == found[-1]
