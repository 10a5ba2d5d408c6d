"""Rows that create or update, whichever it is: what became of the one before decides, in the same night."""

from faulty_exchange import misbehaving

HEAD = "Åtgärd;Order;Mottagare;Gata;Postnr;Ort;Land;Hämtning;Leverans;Kolli;Vikt;Volym;Värde;Orsak"
ROW = "N;LQ-501;{name};Storgatan 5;903 26;Umeå;SE;2026-03-11 08:00;2026-03-12 10:00;3;41,5;0,9;2 150,00;"
LONG = "Norra Möbler, avdelningen för kök och badrum"


def test_the_corrected_row_creates_what_the_exchange_refused_before_it(workspace, tmp_path):
    def drop(number, name):
        workspace.drop(f"lindqvist_changes_{number}.csv", f"{HEAD}\n{ROW.format(name=name)}\n")

    def run():
        return workspace.run("--exchange", served.exchange.url).returncode, workspace.run_json()["groups"]

    workspace.use_shipped("lindqvist-changes")
    for number, name in enumerate((LONG, "Norra Möbler", "Norra Möbler AB"), 1):
        drop(number, name)
    with misbehaving(tmp_path, text_length_max=40) as served:
        orders = {"refused": 1, "replaced later": 1}
        assert run() == (1, {"order.create": orders, "order.update": {"matched": 1}})
        assert [one["operation"] for one in served.happened()] == ["order.create", "order.update"]
        drop(4, "Norra Möbler AB")
        assert run() == (0, {"order.update": {"unchanged": 1}})
