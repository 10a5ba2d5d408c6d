"""What the exchange is meant to do, said once more in the plainest way: dicts and lists, one call after the other.

It shares no line with the exchange's own effects; only the names of the listing-only fields come from the contract.
"""

from typing import Any, NamedTuple

from loadsheet.contract import BY_NAME, Assumptions, When

Payload = dict[str, Any]
LISTED = {name for name, field in BY_NAME["tender.list"].record.walk() if field.when is When.LISTED}


class Expected(NamedTuple):
    """The answer to a call: done or refused; the number of the order; for batches the indices that are refused."""

    done: bool
    number: int = 0
    wrong: tuple[int, ...] = ()


REFUSED, DONE = Expected(done=False), Expected(done=True)


class Model:
    """The exchange in memory. Records stand in order of creation, under their identifiers as texts."""

    def __init__(self, assumptions: Assumptions) -> None:
        self._assumed = assumptions
        self._last = {"order": 0, "tender": 0}
        self._numbers: dict[str, dict[str, int]] = {"order": {}, "tender": {}}
        self.held: dict[str, dict[str, Payload]] = {"order": {}, "tender": {}}
        self.quotes: dict[tuple[str, str], Payload] = {}
        self.confirmations: list[tuple[tuple[str, str], Payload]] = []
        self.decided: dict[tuple[str, str], bool] = {}
        self.events: list[tuple[str, Payload]] = []

    def listed(self, subject: str) -> list[Payload]:
        """The records as a listing shows them."""
        if subject == "order":
            return list(self.held["order"].values())
        blank = dict.fromkeys(LISTED, "")
        return [
            {**tender, **blank, "package_count": str(len(tender.get("packages", [])))}
            for tender in self.held["tender"].values()
        ]

    def apply(self, name: str, payload: Payload, wrong: tuple[int, ...] = ()) -> Expected:
        """Carry out a call that meets the contract; of a batch the records at `wrong` do not."""
        subject, action = name.split(".")
        if action == "status":
            return self._status(payload["data"], wrong)
        if action == "quote":
            return self._quote(payload)
        if action == "confirm":
            return self._confirm(payload)
        key = str(payload[f"{subject}_id"])
        return {"create": self._create, "update": self._update, "delete": self._delete}[action](subject, key, payload)

    def _put(self, subject: str, key: str, record: Payload) -> Expected:
        if key not in self.held[subject]:
            self._last[subject] += 1
            self._numbers[subject][key] = self._last[subject]
        self.held[subject][key] = record
        return Expected(done=True, number=self._numbers[subject][key])

    def _create(self, subject: str, key: str, payload: Payload) -> Expected:
        if key in self.held[subject]:
            if self._assumed.create_existing == "reject":
                return REFUSED
            if self._assumed.create_existing == "accept":
                return self._put(subject, key, self.held[subject][key])
        return self._put(subject, key, payload)

    def _update(self, subject: str, key: str, payload: Payload) -> Expected:
        if key not in self.held[subject]:
            if self._assumed.update_unknown == "reject":
                return REFUSED
            if self._assumed.update_unknown == "accept":
                return DONE
        return self._put(subject, key, {**self.held[subject].get(key, {}), **payload})

    def _delete(self, subject: str, key: str, _payload: Payload) -> Expected:
        if key not in self.held[subject]:
            return DONE if self._assumed.delete_unknown == "accept" else REFUSED
        del self.held[subject][key]
        if subject == "order":
            self.events = [event for event in self.events if event[0] != key]
        else:
            self.quotes = {quote: record for quote, record in self.quotes.items() if quote[0] != key}
            self.decided = {quote: said for quote, said in self.decided.items() if quote[0] != key}
            self.confirmations = [said for said in self.confirmations if said[0][0] != key]
        return DONE

    def _quote(self, payload: Payload) -> Expected:
        quote = str(payload["tender_id"]), str(payload["carrier_id"])
        if quote[0] not in self.held["tender"] and self._assumed.quote_unknown == "reject":
            return REFUSED
        if quote in self.quotes and self._assumed.quote_existing == "reject":
            return REFUSED
        if self.decided.get(quote) and self._assumed.quote_accepted == "reject":
            return REFUSED
        if self.decided.pop(quote, None) is not None:
            self.confirmations = [said for said in self.confirmations if said[0] != quote]
        self.quotes[quote] = payload
        return DONE

    def _confirm(self, payload: Payload) -> Expected:
        quote = str(payload["tender_id"]), str(payload["carrier_id"])
        if quote not in self.quotes and self._assumed.confirm_unknown == "reject":
            return REFUSED
        accepts = payload["status"].lower() == "accept"
        if quote in self.decided and self._assumed.confirm_decided != "replace":
            same = self.decided[quote] == accepts and self._assumed.confirm_decided == "same"
            return DONE if same else REFUSED
        self.decided[quote] = accepts
        self.confirmations.append((quote, payload))
        tender = self.held["tender"].get(quote[0])
        if tender and payload["status"] == "accept" and self._assumed.accept_sets_tender_status:
            self.held["tender"][quote[0]] = {**tender, "tender_status": self._assumed.accept_sets_tender_status}
        return DONE

    def _status(self, records: list[Any], wrong: tuple[int, ...]) -> Expected:
        refused, good = list(wrong), []
        for place, record in enumerate(records):
            if place in wrong:
                continue
            if str(record["order_id"]) in self.held["order"] or self._assumed.status_unknown == "accept":
                good.append(record)
            else:
                refused.append(place)
        if refused and self._assumed.status_on_400 != "partial":
            good = []
        for record in good:
            key = str(record["order_id"])
            self.events.append((key, record))
            source = {"code": "status_code", "name": "status_name"}.get(self._assumed.status_sets_order_status)
            if source in record and key in self.held["order"]:
                self.held["order"][key] = {**self.held["order"][key], "order_status": record[source]}
        return Expected(done=not refused, wrong=tuple(sorted(refused)))
